package virtual

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeIsComparedInBubblesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Elapse(time.Hour)
		if passed := Since(began); passed != time.Hour {
			t.Errorf("after an hour, %s have passed", passed)
		}
	})
	for name, do := range map[string]func(){
		"Since": func() { Since(time.Now()) }, "Until": func() { Until(time.Now()) }, "Elapse": func() { Elapse(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s works outside of a bubble", name)
				}
			}()
			do()
		}()
	}
}
