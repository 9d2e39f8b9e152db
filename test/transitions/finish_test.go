package transitions

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// mostMends is how often finish looks for something that people have to do: each time it does all that there is.
const mostMends = 12

// finish does what people have to do before anything can come to rest where its spec says: pauses ended, Networks that
// are to go let go of, what the cloud refuses no longer asked for, clouds named that there are, and drift that is
// reported or ignored taken back.
func (s *sequence) finish(t *rapid.T) {
	t.Helper()
	for range mostMends {
		s.settle(t)
		networks, ports := s.inventory(t, s.reached)
		var mended []string
		for _, n := range networks {
			mended = append(mended, s.mendNetwork(t, n, ports)...)
		}
		for _, p := range ports {
			mended = append(mended, s.mendPort(t, p)...)
		}
		for _, what := range mended {
			met.Count(what)
		}
		if len(mended) > 0 {
			continue
		}
		for _, n := range networks {
			if n.object.DeletionTimestamp != nil {
				t.Fatalf("Network %s does not go: %+v", n.slot, n.object.Status.Conditions)
			}
		}
		return
	}
	t.Fatalf("after %d times there is still something for people to do", mostMends)
}

// mendNetwork does what has to be done about a Network, and tells what that was.
func (s *sequence) mendNetwork(t *rapid.T, n *madeNetwork, ports []*madePort) (mended []string) {
	t.Helper()
	if isPaused(&n.object) {
		t.Logf("finish: go on with Network %s", n.slot)
		s.annotate(t, &n.object, nil)
		return []string{"a Network that is paused"}
	}
	ready := meta.FindStatusCondition(n.object.Status.Conditions, cloudteamv1.ConditionReady)
	deleted := n.object.DeletionTimestamp != nil
	if deleted || ready.Reason == cloudteamv1.ReasonInUse {
		for _, p := range ports {
			// A subnet that is no longer declared may have the address of a port about which nothing is done.
			stuck := p.resource != nil && (p.invalid() || p.is(cloudteamv1.ReasonRejected))
			if p.on == n && p.object.DeletionTimestamp == nil && (deleted || stuck) {
				s.endPortOf(t, p)
				mended = append(mended, "a port that keeps something from going")
			}
		}
	}
	if ready.Reason == cloudteamv1.ReasonInUse || deleted && ready.Reason == cloudteamv1.ReasonBlocked {
		mended = append(mended, s.removeStrange(t, n, deleted)...)
	}
	if !deleted && ready.Reason == cloudteamv1.ReasonImportNotFound && !n.object.Observes() {
		t.Logf("finish: delete Network %s", n.slot)
		s.goes(&n.object)
		expect.NoError(t, s.client.CloudteamV1().Networks(n.object.Namespace).Delete(s.ctx, n.name, metav1.DeleteOptions{}))
		return append(mended, "an import that is gone")
	}
	spec := *n.object.Spec.DeepCopy()
	if s.leadsTo(spec.Cloud) != s.homes[n.slot] {
		right, _ := s.references(s.homes[n.slot])
		spec.Cloud = right[0].DeepCopy()
		mended = append(mended, "the wrong cloud")
	}
	if !deleted {
		mended = append(mended, s.mendSpec(t, n, ready.Reason, &spec)...)
	}
	if asJSON(spec) != asJSON(n.object.Spec) {
		t.Logf("finish: declare Network %s: %s", n.slot, asJSON(s.drawnNetworkSpec(s.reached, n.slot, spec)))
		s.editNetwork(t, s.reached, n.slot, spec)
	}
	return mended
}

// mendSpec takes out of a Network's spec what it cannot come to rest with, and tells what that was.
func (s *sequence) mendSpec(
	t *rapid.T, n *madeNetwork, reason string, spec *cloudteamv1.NetworkSpec,
) (mended []string) {
	t.Helper()
	switch {
	case reason == cloudteamv1.ReasonForbidden:
		before := asJSON(*spec)
		spec.Shared, spec.External, spec.Provider = nil, nil, nil
		if spec.Router != nil {
			spec.Router.SNAT, spec.Router.ExternalIP = nil, ""
			spec.Router.HA, spec.Router.Distributed = nil, nil
		}
		if asJSON(*spec) == before && s.takeBackForOthers(t, n) {
			return []string{"what takes an administrator to be taken back"}
		}
		if asJSON(*spec) == before {
			t.Fatalf("Network %s is Forbidden, and asks for nothing that is: %+v", n.slot, n.object.Status.Conditions)
		}
		mended = append(mended, "what takes an administrator")
	case reason == cloudteamv1.ReasonImportMismatch && !n.object.Observes():
		spec.Import.Overwrite = true
		mended = append(mended, "an import that differs")
	case reason == cloudteamv1.ReasonDriftDetected && !n.object.Observes():
		s.holdDrift(t, n)
		spec.DriftPolicy = cloudteamv1.DriftPolicyCorrect
		mended = append(mended, "drift that is reported")
	case reason == cloudteamv1.ReasonAddressInUse:
		spec.Router = nil
		mended = append(mended, "a gateway's address that a port has")
	}
	if reason == cloudteamv1.ReasonRejected && n.isOfAnotherKind() {
		// It was to be another router, and nobody waited for the former to go.
		spec.Router.HA, spec.Router.Distributed = nil, nil
		mended = append(mended, "a router of another kind")
	}
	if spec.MTU != nil && *spec.MTU == tooLarge {
		spec.MTU = nil
		mended = append(mended, "an mtu that the cloud refuses")
	}
	if slices.ContainsFunc(spec.AvailabilityZoneHints, func(zone string) bool {
		return slices.Contains(s.around.limits.NoZones, zone)
	}) {
		spec.AvailabilityZoneHints = nil
		mended = append(mended, "zones that are not there")
	}
	// What is ignored does not come to what the spec says; a change of the spec has all of it applied.
	if len(spec.IgnoreDrift) > 0 && s.networkPast(n.slot).meddled && !n.object.Observes() {
		spec.IgnoreDrift = nil
		mended = append(mended, "drift that is ignored")
	}
	return mended
}

// takeBackForOthers has an administrator take back what a spec asked for that only an administrator may set, where one
// had set it: whoever declared it cannot. It reports whether there was anything to do.
func (s *sequence) takeBackForOthers(t *rapid.T, n *madeNetwork) bool {
	t.Helper()
	if n.resource == nil || n.resource["shared"] != true && n.resource["router:external"] != true {
		return false
	}
	t.Logf("finish: take back Network %s", n.slot)
	expect.NoError(t, s.around.people.Update(s.ctx, "networks", n.resource.ID(),
		resource{"shared": false, "router:external": false}))
	return true
}

// removeStrange removes what others have on a Network's network: routers' interfaces that were retained with it, and,
// where it is to go, subnets.
func (s *sequence) removeStrange(t *rapid.T, n *madeNetwork, deleted bool) (mended []string) {
	t.Helper()
	if n.resource == nil {
		return nil
	}
	people, on := s.around.people, "network_id="+n.resource.ID()
	ports, err := people.List(s.ctx, "ports", on)
	expect.NoError(t, err)
	for _, p := range ports {
		if ownerOf(p, s.cluster) == "" && isInterface(p) {
			t.Logf("finish: detach %s of Network %s", addressesOf(p), n.slot)
			// A route by way of it would keep it.
			expect.NoError(t, people.Update(s.ctx, "routers", p.Text("device_id"), resource{"routes": []resource{}}))
			expect.NoError(t, people.detach(s.ctx, p.Text("device_id"), p.ID()))
			mended = append(mended, "an interface that was retained, on a network that was imported again")
		}
	}
	subnets, err := people.List(s.ctx, "subnets", on)
	expect.NoError(t, err)
	for _, subnet := range subnets {
		if deleted && ownerOf(subnet, s.cluster) == "" {
			t.Logf("finish: remove subnet %s of Network %s", subnet["cidr"], n.slot)
			expect.NoError(t, people.Remove(s.ctx, "subnets", subnet.ID()))
			mended = append(mended, "a subnet of others' on a network that is to go")
		}
	}
	return mended
}

// mendPort is mendNetwork for a NetworkPort.
func (s *sequence) mendPort(t *rapid.T, p *madePort) (mended []string) {
	t.Helper()
	switch {
	case isPaused(&p.object):
		t.Logf("finish: go on with NetworkPort %s", p.slot)
		s.annotate(t, &p.object, nil)
		return []string{"a NetworkPort that is paused"}
	case p.object.DeletionTimestamp != nil:
		return nil
	case p.is(cloudteamv1.ReasonForbidden): // Only an administrator, who has given it another MAC, could give it back.
		s.endPortOf(t, p)
		return []string{"a port whose MAC an administrator has changed"}
	case p.excluded() && p.is(cloudteamv1.ReasonNetworkNotReady) && addressesOf(p.resource) == "":
		// Others took the address, and the subnet that it was in is for others by now.
		s.endPortOf(t, p)
		return []string{"a port without the address that it would have kept"}
	case p.on == nil && p.resource != nil: // An observed Network goes without waiting for its ports.
		s.endPortOf(t, p)
		return []string{"a port whose Network is gone"}
	}
	spec := *p.object.Spec.DeepCopy()
	if p.is(cloudteamv1.ReasonDriftDetected) {
		spec.DriftPolicy = cloudteamv1.DriftPolicyCorrect
		mended = append(mended, "drift of a port that is reported")
	}
	if len(spec.IgnoreDrift) > 0 && s.portPast(p.slot).meddled {
		spec.IgnoreDrift = nil
		mended = append(mended, "drift of a port that is ignored")
	}
	if len(mended) > 0 {
		t.Logf("finish: declare NetworkPort %s: %s", p.slot, asJSON(s.reached.drawnPortSpec(spec)))
		s.putPort(t, s.reached, p.slot, spec)
	}
	return mended
}

func (s *sequence) endPortOf(t *rapid.T, p *madePort) {
	t.Helper()
	t.Logf("finish: delete NetworkPort %s", p.slot)
	s.endPort(t, &p.object)
}

// holdDrift holds that drift is told of where it may be.
func (s *sequence) holdDrift(t *rapid.T, n *madeNetwork) {
	t.Helper()
	switch {
	case n.object.Spec.DriftPolicy != cloudteamv1.DriftPolicyReport:
		t.Fatalf("Network %s reports drift with driftPolicy %q", n.slot, n.object.Spec.DriftPolicy)
	case !s.networkPast(n.slot).meddled:
		t.Fatalf("Network %s reports drift and nobody changed it: %+v", n.slot, n.object.Status.Drift)
	case len(n.object.Status.Drift) == 0:
		t.Fatalf("Network %s reports drift and does not tell which", n.slot)
	}
}
