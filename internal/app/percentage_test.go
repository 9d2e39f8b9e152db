package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestPercentageSet(t *testing.T) {
	for text, want := range map[string]struct {
		value float64
		shown string
	}{
		"10%": {10, "10%"}, "0": {0, "0%"}, "0%": {0, "0%"}, "2.5%": {2.5, "2.5%"}, "7%": {7, "7%"}, "100%": {100, "100%"},
	} {
		o := NewOptions()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.AddFlags(flags)
		if err := flags.Parse([]string{"--addresses-low=" + text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if shown := flags.Lookup("addresses-low").Value.String(); o.AddressesLow != want.value || shown != want.shown {
			t.Errorf("%s is read as %g and shown as %s", text, o.AddressesLow, shown)
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "%", "10", "0.1", "ten%", "10%%", "10 %"} {
		o := NewOptions()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.AddFlags(flags)
		err := flags.Parse([]string{"--addresses-low=" + text})
		if err == nil || !strings.Contains(err.Error(), "such as 10%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
