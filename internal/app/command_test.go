package app

import (
	"bytes"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

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
		if !strings.Contains(out.String(), flag) {
			t.Errorf("help does not tell of %s:\n%s", flag, out.String())
		}
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
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}
