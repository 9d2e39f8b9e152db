package app

import (
	"errors"
	"strconv"
	"strings"
)

// percentage is a flag's value such as 10%. It is a pflag.Value.
type percentage float64

// String is the percentage as Set reads it.
func (p *percentage) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }

// Set reads a number with a percent sign, or a bare 0. A bare 0.1 might be meant as a share, and a bare 10 as a count,
// so neither is guessed at.
func (p *percentage) Set(text string) error {
	number, signed := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !signed && value != 0 {
		return errors.New("write a percentage such as 10%, or 0")
	}
	*p = percentage(value)
	return nil
}

// Type is what the flag's help calls the value.
func (p *percentage) Type() string { return "percentage" }
