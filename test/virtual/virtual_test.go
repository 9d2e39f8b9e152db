package virtual

import (
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTimeIsComparedInBubblesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Elapse(time.Hour)
		expect.Equal(t, time.Hour, Since(began), "what has passed after an hour")
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
