// Package sample is what the test of mutants changes.
package sample

// Abs has a boundary that does not matter.
func Abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// Odd counts odd numbers, but for 7.
func Odd(all ...int) (count int) {
	for _, n := range all {
		if n%2 != 0 && // the rest
			!(n == 7) {
			count++
		}
	}
	return count
}

// Half has a condition that is no comparison.
func Half(n int, up bool) int {
	if up {
		n += 1
	}
	for i := 0; i < 1; i++ {
		n = n / 2
	}
	return n
}

// Forgotten has no test.
func Forgotten(a, b string) string {
	if a > b || a == "" {
		return a + b
	}
	return b
}

const size = 2*3 - 1

var _ [size + 1]int
