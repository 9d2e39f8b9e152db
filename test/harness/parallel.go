package harness

import (
	"flag"
	"strconv"
)

// RunInParallel has n tests run at a time unless -parallel says otherwise; TestMain calls it. go test's own number is
// that of the CPUs, which tests that wait most of their time leave idle.
func RunInParallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // package testing has the flag
	}
}
