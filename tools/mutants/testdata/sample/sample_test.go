package sample

import "testing"

func Test(t *testing.T) {
	if Abs(-2) != 2 || Abs(3) != 3 || Odd(1, 2, 3, 4, 6) != 2 || Half(3, true) != 2 || Half(3, false) != 1 {
		t.Error("wrong")
	}
}
