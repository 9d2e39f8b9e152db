package managed_test

import (
	"errors"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Ids that a tenant's own credentials told are used with no credentials of the operator.
func TestWhoMayUseIdsThatAStatusTells(t *testing.T) {
	tenants := &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "s"}
	operators := &cloudteamv1.CredentialsStatus{Namespace: "system", SecretName: "s"}
	for name, c := range map[string]struct {
		told        *cloudteamv1.CredentialsStatus
		tenant      string
		byOperator  bool
		byNamespace bool
	}{
		"the process's own cloud":    {nil, "", true, true},
		"the operator's Secret":      {operators, "", true, true},
		"the namespace's own Secret": {tenants, "team", false, true},
	} {
		expect.Equal(t, c.tenant, managed.TenantOf("team", c.told), "the tenant of %s", name)
		for _, operator := range []managed.CloudRef{{}, {Namespace: "system", Secret: "s"}} {
			if may := operator.MayUse("team", c.told); may != c.byOperator {
				t.Errorf("what %s told may be used with %q: %t", name, operator, may)
			}
		}
		if may := (managed.CloudRef{Namespace: "team", Secret: "s"}).MayUse("team", c.told); may != c.byNamespace {
			t.Errorf("what %s told may be used with the namespace's own: %t", name, may)
		}
	}
}

func TestACloudIsNamedByItsSecretAndEntry(t *testing.T) {
	for want, ref := range map[string]managed.CloudRef{
		"team/s": {Namespace: "team", Secret: "s"}, "team/s:e": {Namespace: "team", Secret: "s", Entry: "e"},
	} {
		if got := ref.String(); got != want || ref.IsOwn() {
			t.Errorf("%q, want %q; its own: %t", got, want, ref.IsOwn())
		}
	}
	if !(managed.CloudRef{}).IsOwn() {
		t.Error("without a Secret it is not the process's own")
	}
}

// What a user can do depends on what was refused.
func TestRefusalsNameTheirRemedy(t *testing.T) {
	floating := plan.Step{Action: plan.CreateFloatingIP}
	floating.FloatingIP.NetworkID = "outside"
	port := plan.Step{Action: plan.CreatePort}
	pool := plan.Step{Action: plan.CreateSubnet}
	pool.Subnet.From = &plan.Allocation{Name: "wide"}
	shared := plan.Step{Action: plan.UpdateNetwork, Differences: []plan.Difference{{Field: plan.FieldShared}}}
	for name, c := range map[string]struct {
		step      plan.Step
		kind      client.Kind
		says, not string
	}{
		"a floating IP where none is free":  {floating, client.Exhausted, "Free a floating IP of external network outside", ""},
		"a port where none is free":         {port, client.Exhausted, "widen the Network's allocationPools", "external network"},
		"a pool without a range":            {pool, client.Exhausted, `Free a range of subnet pool "wide"`, "external network"},
		"a floating IP whose port has one":  {plan.Step{Action: plan.UpdateFloatingIP}, client.Taken, "Retrying with backoff.", "Declare another address"},
		"a port's address that is taken":    {port, client.Taken, "Declare another address", ""},
		"a field of an administrator's":     {shared, client.Forbidden, "these credentials may not set shared", ""},
		"a step without such a field":       {port, client.Forbidden, "Use credentials that are allowed to do this.", "may not set"},
		"what no request can be about":      {port, client.Invalid, "Change the spec, or have the cloud allow it.", ""},
		"what another one does at the time": {port, client.Conflict, "Retrying with backoff.", ""},
	} {
		refusal := &client.Error{Kind: c.kind, Op: "ask", Reason: "no"}
		err := managed.Explain(t.Context(), c.step, refusal)
		message := managed.StateOf(err).Message
		if !strings.Contains(message, c.says) || c.not != "" && strings.Contains(message, c.not) {
			t.Errorf("%s: %q, want %q and not %q", name, message, c.says, c.not)
		}
		if !errors.Is(err, error(refusal)) {
			t.Errorf("%s: %v hides the refusal", name, err)
		}
	}
}

// Who does not have the credentials is told nothing about where they lead.
func TestAMismatchOfOthersCredentialsTellsWhomToAsk(t *testing.T) {
	for kind, c := range map[plan.Kind]struct{ of, remedy string }{
		plan.KindPort:    {"The credentials of its Network are for another", "The Network's own condition says more."},
		plan.KindNetwork: {"The credentials of its NetworkClass are for another", "ask the administrator of the class"},
	} {
		message := managed.StateOf(managed.NewMismatchElsewhere(kind)).Message
		if !strings.Contains(message, c.of) || !strings.Contains(message, c.remedy) || strings.Contains(message, "https://") {
			t.Errorf("of a %s: %q", kind, message)
		}
	}
	pinned, found := here, here
	found.Endpoint = elsewhere.Endpoint
	renamed := managed.StateOf(managed.NewMismatch(plan.KindNetwork, pinned, found)).Message
	if !strings.Contains(renamed, "--same-cloud="+pinned.Endpoint+"="+found.Endpoint) {
		t.Errorf("of another endpoint it says %q", renamed)
	}
	for _, change := range []func(*client.Identity){
		func(i *client.Identity) { i.Region = "two" }, func(i *client.Identity) { i.ProjectID = "p2" },
	} {
		other := found
		change(&other)
		if message := managed.StateOf(managed.NewMismatch(plan.KindNetwork, pinned, other)).Message; strings.Contains(message, "same-cloud") {
			t.Errorf("of another project or region it says %q", message)
		}
	}
}

func TestAProblemSaysItsCauseOrItsMessage(t *testing.T) {
	state := controller.Stalled("Reason", "what the object shows")
	expect.Equal(t, "what the object shows", managed.Waits(state).Error(), "what it says without a cause")
	if got := (&managed.Problem{State: state, Err: errors.New("why")}).Error(); got != "why" {
		t.Errorf("with a cause it is %q", got)
	}
}
