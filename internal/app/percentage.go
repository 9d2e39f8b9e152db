package app

import (
	"errors"
	"strconv"
	"strings"
)

// percentage is a flag's value such as 10%. It is a pflag.Value.
type percentage float64

// String formats the percentage as Set reads it.
func (p *percentage) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }

// Set reads a number with a percent sign, or 0. Other numbers without the sign are ambiguous: 0.1 might mean a share,
// and 10 a count.
func (p *percentage) Set(text string) error {
	number, signed := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !signed && value != 0 {
		return errors.New("write a percentage such as 10%, or 0")
	}
	*p = percentage(value)
	return nil
}

// Type is the name of the value in --help.
func (p *percentage) Type() string { return "percentage" }
