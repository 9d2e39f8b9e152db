package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestPercentageSet(t *testing.T) {
	parse := func(text string) (o Options, shown string, err error) {
		o = NewOptions()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.AddFlags(flags)
		err = flags.Parse([]string{"--addresses-low=" + text})
		return o, flags.Lookup("addresses-low").Value.String(), err
	}
	for text, want := range map[string]struct {
		value float64
		shown string
	}{
		"10%": {10, "10%"}, "0": {0, "0%"}, "0%": {0, "0%"}, "2.5%": {2.5, "2.5%"}, "7%": {7, "7%"}, "100%": {100, "100%"},
	} {
		o, shown, err := parse(text)
		if err := errors.Join(err, o.Validate()); err != nil || o.AddressesLow != want.value || shown != want.shown {
			t.Errorf("%s is read as %g and shown as %s: %v", text, o.AddressesLow, shown, err)
		}
	}
	for _, text := range []string{"", "%", "10", "0.1", "ten%", "10%%", "10 %"} {
		if _, _, err := parse(text); err == nil || !strings.Contains(err.Error(), "such as 10%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
