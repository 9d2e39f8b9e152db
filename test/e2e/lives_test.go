package e2e

import "testing"

// lives are those of objects of each kind, each in a namespace of its own.
var lives = map[string]func(t *testing.T){
	"Network":              lifeOfANetwork,
	"router":               lifeOfARouter,
	"NetworkPort":          lifeOfANetworkPort,
	"SecurityGroup":        lifeOfASecurityGroup,
	"FloatingIPs":          lifeOfFloatingIPs,
	"imported floating IP": lifeOfAnImportedFloatingIP,
	"policies":             lifeOfPolicies,
	"Deployments":          lifeOfDeployments,
	"StatefulSet":          lifeOfAStatefulSet,
	"virtual machine":      lifeOfAVirtualMachine,
	"Services":             func(t *testing.T) { lifeOfServices(t, withoutRestart) },
	"imports by filter":    func(t *testing.T) { lifeOfImports(t, withoutRestart) },
}

// withoutRestart is for TestLives, in which one controller serves all lives.
func withoutRestart(meanwhile func()) { meanwhile() }

// TestLives leads objects of each kind through their lives, beside each other as in a cluster, by one controller.
func TestLives(t *testing.T) {
	withProcesses(t)
	startController(t, "tenant")
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life(t)
		})
	}
}
