package app

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestOptionsAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		// says are parts of the error; none means valid.
		says []string
	}{
		"the defaults are valid": {func(*Options) {}, nil},
		"no workers":             {func(o *Options) { o.Workers = 0 }, []string{"--workers=0", "at least 1"}},
		"one worker is enough":   {func(o *Options) { o.Workers = 1 }, nil},
		"audits without a pause": {
			func(o *Options) { o.AuditInterval = 0 }, []string{"--audit-interval=0s", "1s"},
		},
		"audits each second": {func(o *Options) { o.AuditInterval = time.Second }, nil},
		"a resync back in time": {
			func(o *Options) { o.ResyncPeriod = -1 }, []string{"--resync-period=-1ns", "0 or more"},
		},
		"no resync": {func(o *Options) { o.ResyncPeriod = 0 }, nil},
		"calls without time": {
			func(o *Options) { o.CloudTimeout = time.Millisecond }, []string{"--cloud-timeout=1ms"},
		},
		"an inspection on loopback": {func(o *Options) { o.InspectAddress = "127.0.0.1:0" }, nil},
		"an inspection for others": {
			func(o *Options) { o.InspectAddress = ":8090" }, []string{"--inspect-address", "loopback", "127.0.0.1:8090"},
		},
		"a controller that is not there": {
			func(o *Options) { o.Controllers = []string{"*", "x"} }, []string{`"x"`, "network"},
		},
		"leaving out what is not there": {
			func(o *Options) { o.Controllers = []string{"*", "-x"} }, []string{`"x"`, "network"},
		},
		"a controller by name":    {func(o *Options) { o.Controllers = []string{"network"} }, nil},
		"two controllers by name": {func(o *Options) { o.Controllers = []string{"network", "foo"} }, nil},
		"all but one":             {func(o *Options) { o.Controllers = []string{"*", "-network"} }, nil},
		"runs no controller": {
			func(o *Options) { o.Controllers = nil }, []string{"--controllers", "runs no controller"},
		},
		"all left out": {
			func(o *Options) {
				o.Controllers = allBut(func(string) bool { return true })
			}, []string{"runs no controller"},
		},
		"only left out": {
			func(o *Options) { o.Controllers = []string{"-network"} }, []string{"runs no controller", "*"},
		},
		"orphans without a cloud": {
			func(o *Options) { o.Controllers = []string{"orphan"} }, []string{"runs no controller"},
		},
		"pools that give up ports at once": {func(o *Options) { o.PoolCooldown = 0 }, nil},
		"a cool-down that is over": {
			func(o *Options) { o.PoolCooldown = -1 }, []string{"--pool-cooldown=-1ns", "0 or more"},
		},
		"resources that stay": {func(o *Options) { o.Policies.Deletion = "Retain" }, nil},
		"another deletion policy": {
			func(o *Options) { o.Policies.Deletion = "Keep" }, []string{"--deletion-policy=Keep", "Delete or Retain"},
		},
		"drift that stays": {func(o *Options) { o.Policies.Drift = "Report" }, nil},
		"no drift policy": {
			func(o *Options) { o.Policies.Drift = "" }, []string{"--drift-policy=:", "Correct or Report"},
		},
		"addresses that never run low":  {func(o *Options) { o.AddressesLow = 0 }, nil},
		"addresses that are always low": {func(o *Options) { o.AddressesLow = 100 }, nil},
		"less than no addresses": {
			func(o *Options) { o.AddressesLow = -1 }, []string{"--addresses-low=-1%", "0% to 100%"},
		},
		"more addresses than there are": {
			func(o *Options) { o.AddressesLow = 101 }, []string{"--addresses-low=101%", "0% to 100%"},
		},
		"a percentage that is no number": {
			func(o *Options) { o.AddressesLow = math.NaN() }, []string{"--addresses-low=NaN%", "0% to 100%"},
		},
		"no grace period turns orphans off": {func(o *Options) { o.Orphan.Grace = 0 }, nil},
		"a grace period that is over": {
			func(o *Options) { o.Orphan.Grace = -1 }, []string{"--orphan-grace=-1ns", "0 or more"},
		},
		"a share of nothing":    {func(o *Options) { o.Orphan.MaxShare = 0 }, nil},
		"a share of everything": {func(o *Options) { o.Orphan.MaxShare = 1 }, nil},
		"more than everything": {
			func(o *Options) { o.Orphan.MaxShare = 10 }, []string{"--orphan-max-share=10", "0 to 1"},
		},
		"less than nothing": {
			func(o *Options) { o.Orphan.MaxShare = -0.1 }, []string{"--orphan-max-share=-0.1", "0 to 1"},
		},
		"a share that is no number": {
			func(o *Options) { o.Orphan.MaxShare = math.NaN() }, []string{"--orphan-max-share=NaN", "0 to 1"},
		},
		"traces for a collector": {func(o *Options) { o.TracesEndpoint = "https://collector.test:4318/v1/traces" }, nil},
		"a collector without a scheme": {
			func(o *Options) { o.TracesEndpoint = "collector.test:4317" },
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.monitoring:4318"},
		},
		"a collector's password, which the log would show": {
			func(o *Options) { o.TracesEndpoint = "http://me:secret@collector.test:4318" },
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.monitoring:4318"},
		},
		"a lease that ends while its holder may write": {
			func(o *Options) { o.LeaderElection.RenewDeadline = 15 * time.Second },
			[]string{"--leader-elect-renew-deadline=15s", "less than --leader-elect-lease-duration=15s"},
		},
		"a lease of a part of a second": {
			func(o *Options) { o.LeaderElection.LeaseDuration = 10500 * time.Millisecond },
			[]string{"--leader-elect-lease-duration=10.5s", "whole seconds"},
		},
		"a lease that is hardly renewed": {
			func(o *Options) { o.LeaderElection.RetryPeriod = 9 * time.Second },
			[]string{"--leader-elect-retry-period=9s", "less than 8.33"},
		},
		"a lease without a name": {
			func(o *Options) { o.LeaderElection.ResourceName = "" }, []string{"--leader-elect-resource-name"},
		},
		"no election": {
			func(o *Options) { o.LeaderElection = LeaderElection{} }, nil,
		},
		"all mistakes are told at once": {func(o *Options) { o.Workers, o.AuditInterval = -1, -1 },
			[]string{"--workers=-1", "--audit-interval=-1ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			c.change(&o)
			err := o.Validate()
			if (err != nil) != (len(c.says) > 0) {
				t.Fatalf("error %v, want one: %t", err, len(c.says) > 0)
			}
			for _, part := range c.says {
				expect.ErrorSays(t, err, part)
			}
		})
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
			"orphan", allBut(func(name string) bool { return callsNeutron[name] }), time.Minute, false,
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
