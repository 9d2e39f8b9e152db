// Package rights holds that the controllers' ServiceAccounts have each right that the controllers use, and no other.
// The binary runs as these accounts, with the roles that config and config/foo grant, through everything that it does
// at the API server. kube-apiserver's audit log then tells which rights were used, and what was refused.
package rights

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

var (
	// surroundings are what the controllers run in.
	surroundings *harness.Surroundings
	// auditLog is the path of kube-apiserver's audit log.
	auditLog string
)

// accounts are the names of the ServiceAccounts.
var accounts = []string{harness.AccountName, harness.FooAccountName}

// userOf is the user that a ServiceAccount is.
func userOf(account string) string {
	return "system:serviceaccount:" + harness.AccountName + ":" + account
}

func TestMain(m *testing.M) {
	harness.Exit(run(m))
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "network-controller-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	policy := filepath.Join(dir, "audit-policy.yaml")
	auditLog = filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy()), 0o600); err != nil {
		return 1, err
	}
	return harness.Run(harness.Options{
		Own:        "kube-apiserver writes an audit log, and has an admission plug-in more",
		Components: harness.AllComponents(), OpenClass: true, Policies: true, Machines: true,
		APIServerArgs: []string{
			"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog,
			// Whoever sets an owner reference that blocks the owner's deletion needs a right to the owner.
			"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		},
	}, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		return m.Run(), nil
	})
}
