package app

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Parts of what is said of a command line; none means that it is valid.
func TestOptionsAreValidated(t *testing.T) {
	left := "--controllers=" + strings.Join(allBut(func(string) bool { return true }), ",")
	for line, says := range map[string][]string{
		"": nil,
		// The least and the most that there may be.
		"--workers=1 --audit-interval=1s --cloud-timeout=1s --resync-period=0 --pool-cooldown=0 --addresses-low=0 " +
			"--orphan-grace=0 --orphan-max-share=0 --deletion-policy=Retain --drift-policy=Report": nil,
		"--addresses-low=100% --orphan-max-share=1 --inspect-address=127.0.0.1:0":  nil,
		"--leader-elect=false --leader-elect-resource-name= --controllers=network": nil,
		"--controllers=network,foo":           nil,
		"--controllers=*,-network":            nil,
		"--workers=0":                         {"--workers=0", "at least 1"},
		"--audit-interval=999ms":              {"--audit-interval=999ms", "1s"},
		"--resync-period=-1ns":                {"--resync-period=-1ns", "0 or more"},
		"--cloud-timeout=999ms":               {"--cloud-timeout=999ms"},
		"--inspect-address=:8090":             {"--inspect-address", "loopback", "127.0.0.1:8090"},
		"--controllers=*,x":                   {`"x"`, "network"},
		"--controllers=*,-x":                  {`"x"`, "network"},
		"--controllers=":                      {"--controllers", "runs no controller"},
		left:                                  {"runs no controller"},
		"--controllers=-network":              {"runs no controller", "*"},
		"--controllers=orphan":                {"runs no controller"},
		"--pool-cooldown=-1ns":                {"--pool-cooldown=-1ns", "0 or more"},
		"--deletion-policy=Keep":              {"--deletion-policy=Keep", "Delete or Retain"},
		"--drift-policy=":                     {"--drift-policy=:", "Correct or Report"},
		"--addresses-low=-1%":                 {"--addresses-low=-1%", "0% to 100%"},
		"--addresses-low=101%":                {"--addresses-low=101%", "0% to 100%"},
		"--addresses-low=NaN%":                {"--addresses-low=NaN%", "0% to 100%"},
		"--orphan-grace=-1ns":                 {"--orphan-grace=-1ns", "0 or more"},
		"--orphan-max-share=10":               {"--orphan-max-share=10", "0 to 1"},
		"--orphan-max-share=-0.1":             {"--orphan-max-share=-0.1", "0 to 1"},
		"--orphan-max-share=NaN":              {"--orphan-max-share=NaN", "0 to 1"},
		"--leader-elect-renew-deadline=15s":   {"--leader-elect-renew-deadline=15s", "less than --leader-elect-lease-duration=15s"},
		"--leader-elect-lease-duration=10.5s": {"--leader-elect-lease-duration=10.5s", "whole seconds"},
		"--leader-elect-retry-period=9s":      {"--leader-elect-retry-period=9s", "less than 8.33"},
		"--leader-elect-resource-name=":       {"--leader-elect-resource-name"},
		"--workers=-1 --audit-interval=-1ns":  {"--workers=-1", "--audit-interval=-1ns"}, // all mistakes at once
	} {
		t.Run(line, func(t *testing.T) {
			o := NewOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(flags)
			expect.NoError(t, flags.Parse(strings.Fields(line)))
			err := o.Validate()
			if (err != nil) != (len(says) > 0) {
				t.Fatalf("error %v, want one: %t", err, len(says) > 0)
			}
			for _, part := range says {
				expect.ErrorSays(t, err, part)
			}
		})
	}
	for endpoint, valid := range map[string]bool{
		"https://collector.test:4318/v1/traces": true, "collector.test:4317": false,
		"http://me:secret@collector.test:4318": false, // which the log would show
	} {
		o := NewOptions()
		o.TracesEndpoint = endpoint
		if err := o.Validate(); (err == nil) != valid || !valid && (!strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT") ||
			!strings.Contains(err.Error(), "http://collector.monitoring:4318")) {
			t.Errorf("%s: error %v, want it valid: %t", endpoint, err, valid)
		}
	}
}

// TestADroppedFlagSaysWhatToWriteInstead holds that nobody's old command line starts something else.
func TestADroppedFlagSaysWhatToWriteInstead(t *testing.T) {
	for argument, remedy := range map[string]string{
		"--kube-api-qps=50":             "Priority and Fairness",
		"--kube-api-burst=100":          "Priority and Fairness",
		"--max-ports-per-deployment=0":  "limits.portsPerDeployment",
		"--attachment-master=eth1":      "--attachment-plugin=macvlan:eth1",
		"--tracing-endpoint=http://c:1": "OTEL_EXPORTER_OTLP_ENDPOINT",
		"--tracing-sampling-rate=0.1":   "OTEL_TRACES_SAMPLER_ARG",
		"--profiling":                   "/debug/pprof/",
		"--log-flush-frequency=1s":      "each 5s",
	} {
		err := NewCommand().ParseFlags([]string{argument})
		if name, _, _ := strings.Cut(argument, "="); err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: the error is %v, want %q", argument, err, remedy)
		}
	}
}

// TestTracesGoWhereTheStandardVariablesSay holds the two variables to OpenTelemetry's rules.
func TestTracesGoWhereTheStandardVariablesSay(t *testing.T) {
	for _, c := range []struct{ base, traces, want string }{
		{"", "", ""},
		{"http://c:4318", "", "http://c:4318/v1/traces"},
		{"http://c:4318/otlp/", "", "http://c:4318/otlp/v1/traces"},
		{"", "http://c:4318/here", "http://c:4318/here"},
		{"http://c:4318", "http://d:4318/here", "http://d:4318/here"},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.base)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.traces)
		expect.Equal(t, c.want, NewOptions().TracesEndpoint, "%+v", c)
	}
}

func TestReportOnlyRunsOnlyWhatReports(t *testing.T) {
	o := NewOptions()
	o.Policies.Plan = true
	reports := map[string]bool{"pod": true}
	for _, kind := range kinds.All {
		reports[strings.ToLower(kind.Name)] = true
	}
	for _, name := range controllers {
		expect.Equal(t, reports[name], o.enabled(name), "%s is enabled", name)
	}
	p := &process{options: o, election: alone()}
	if p.permit() == nil || p.term() != nil {
		t.Error("a write to Neutron is permitted")
	}
	p.options.Policies.Plan = false
	if err := p.permit(); err != nil || p.term() == nil {
		t.Errorf("a write to Neutron is not permitted: %v", err)
	}
}

func TestDeletionPolicyRetainKeepsOrphans(t *testing.T) {
	o := NewOptions()
	if got := o.orphanRules(); got != o.Orphan || got.MaxShare == 0 {
		t.Errorf("rules by default: %+v", got)
	}
	o.Policies.Deletion = "Retain"
	if got := o.orphanRules(); got.MaxShare != 0 || got.Grace != o.Orphan.Grace {
		t.Errorf("rules under --deletion-policy=Retain: %+v, want them shown alone", got)
	}
}

func TestEnabled(t *testing.T) {
	for name, c := range map[string]struct {
		of          string
		controllers []string
		grace       time.Duration
		want        bool
	}{
		"a star is all":                          {"network", []string{"*"}, 0, true},
		"a name is itself":                       {"network", []string{"network"}, 0, true},
		"another name is not":                    {"network", []string{"foo"}, 0, false},
		"a minus leaves out":                     {"network", []string{"*", "-network"}, 0, false},
		"a minus leaves out in front, too":       {"network", []string{"-network", "*"}, 0, false},
		"leaving out another one leaves this":    {"network", []string{"*", "-foo"}, 0, true},
		"a minus by itself turns nothing on":     {"network", []string{"-foo"}, 0, false},
		"a name beats its own minus":             {"network", []string{"-network", "network"}, 0, true},
		"nothing is nothing":                     {"network", nil, 0, false},
		"orphans with all":                       {"orphan", []string{"*"}, time.Minute, true},
		"orphans by name, beside networks":       {"orphan", []string{"network", "orphan"}, time.Minute, true},
		"orphans not by default beside networks": {"orphan", []string{"network"}, time.Minute, false},
		"orphans not when left out":              {"orphan", []string{"*", "-orphan"}, time.Minute, false},
		"orphans not without a cloud": {
			"orphan", allBut(func(name string) bool { return slices.Contains(callsNeutron, name) }), time.Minute, false,
		},
		"orphans not without a grace period": {"orphan", []string{"*"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			o.Controllers, o.Orphan.Grace = c.controllers, c.grace
			expect.Equal(t, c.want, o.enabled(c.of), "enabled")
		})
	}
}

// allBut is --controllers that leaves some out.
func allBut(out func(name string) bool) []string {
	all := []string{"*"}
	for _, name := range controllers {
		if out(name) {
			all = append(all, "-"+name)
		}
	}
	return all
}

func TestHelpNamesEachFlag(t *testing.T) {
	command := NewCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs([]string{"--help"})
	expect.NoError(t, command.ExecuteContext(t.Context()))
	for _, flag := range []string{
		"--kubeconfig string", "--master string", "--workers int", "--resync-period duration", "(default 30s)",
		"--audit-interval duration", "--controllers strings", "--cloud string", "--cloud-timeout", "--bind-address",
		"-v,", "--leader-elect", "--leader-elect-lease-duration duration", "--leader-elect-resource-namespace string",
	} {
		expect.Contains(t, out.String(), flag, "the help")
	}
	expect.Equal(t, "30s", command.Flags().Lookup("resync-period").DefValue, "--resync-period by default")
}

func TestWrongCommandLinesFail(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"an unknown flag":            {[]string{"--wokers=3"}, "--wokers"},
		"an argument":                {[]string{"start"}, "start"},
		"a number that is none":      {[]string{"--workers=many"}, "--workers"},
		"a duration without a unit":  {[]string{"--audit-interval=30"}, "--audit-interval"},
		"what Validate refuses":      {[]string{"--workers=0"}, "--workers=0"},
		"a logging format of nobody": {[]string{"--logging-format=xml"}, "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			command := NewCommand()
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			command.SetArgs(c.args)
			err := command.ExecuteContext(t.Context())
			expect.ErrorSays(t, err, c.says)
		})
	}
}
