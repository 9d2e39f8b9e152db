// Package virtual is the time inside of a bubble of testing/synctest. A test may compare it, because nothing but the
// test's own code has it pass. Outside of a bubble, where it depends on the machine, these functions panic.
package virtual

import "time"

// Since is how much time has passed.
func Since(began time.Time) time.Duration {
	inBubble()
	return time.Since(began)
}

// Until is how much time passes until then.
func Until(then time.Time) time.Duration {
	inBubble()
	return time.Until(then)
}

// Elapse has time pass.
func Elapse(d time.Duration) {
	inBubble()
	time.Sleep(d) //nolint:forbidigo // virtual time
}

// Clocks of bubbles begin with the year 2000.
func inBubble() {
	if time.Now().Year() > 2020 {
		panic("this is not in a bubble of testing/synctest: how much time passes here depends on the machine")
	}
}
