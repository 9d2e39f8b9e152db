package faults

import (
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// habits are the lives of drawn Networks in clouds that answer otherwise, two habits at a time.
func habits() map[string]scenario {
	all := map[string]scenario{}
	for sentence, s := range drawn() {
		for _, pair := range [][]neutrontest.Habit{
			{neutrontest.NoStatus, neutrontest.TextNumbers}, {neutrontest.AcceptedCreates, neutrontest.VendorAttributes},
			{neutrontest.NullLists, neutrontest.UpperCaseIPv6}, {neutrontest.DownStatus, neutrontest.OldNetworks},
			{neutrontest.AddedHostRoutes, neutrontest.SortedDNSServers},
			{neutrontest.LostDeletes, neutrontest.SilentUpdates}, {neutrontest.NoDate, neutrontest.ShortPages},
			{neutrontest.SkewedDates, neutrontest.LateReads}, {neutrontest.InternalLinks, neutrontest.DatedRetries},
		} {
			live, whose := s.live, fmt.Sprintf(", in a cloud with the habits %s and %s", pair[0], pair[1])
			s.slow = true
			s.live = func(w *world) {
				expect.NoError(w.t, w.habits.Set(pair...))
				live(w)
			}
			all[sentence+whose] = s
		}
	}
	for _, habit := range []neutrontest.Habit{
		neutrontest.EmptyDescriptions, neutrontest.ShortDescriptions, neutrontest.HiddenDescriptions,
	} {
		all[fmt.Sprintf("a cloud with the habit %s keeps no marker", habit)] = scenario{
			slow: true, live: func(w *world) { w.liveUnmarked(habit) },
		}
	}
	return all
}

// ignoring are the fields that a spec ignores, and those that the cloud's habits concern.
func (w *world) ignoring(fields []cloudteamv1.NetworkDriftField) []cloudteamv1.NetworkDriftField {
	for habit, field := range map[neutrontest.Habit]cloudteamv1.NetworkDriftField{
		neutrontest.AddedHostRoutes: "hostRoutes", neutrontest.SortedDNSServers: "dnsServers",
	} {
		if w.habits.Has(habit) && !slices.Contains(fields, field) {
			fields = append(slices.Clone(fields), field)
		}
	}
	slices.Sort(fields)
	return fields
}

// liveUnmarked creates Networks in a cloud that keeps no markers, and deletes them. Nothing of them is left. Then the
// cloud keeps markers, and another process lives its life there.
func (w *world) liveUnmarked(habit neutrontest.Habit) {
	w.t.Helper()
	expect.NoError(w.t, w.habits.Set(habit))
	limits := w.limits()
	for i := range drawnNetworks {
		spec := allowed(limits.Network().Example(i))
		w.createNetwork(w.namespace, drawnName(i), "", "", func(s *cloudteamv1.NetworkSpec) { *s = spec })
	}
	for i := range drawnNetworks {
		message := w.awaitReason(drawnName(i), cloudteamv1.ConditionStalled, cloudteamv1.ReasonMarkerNotKept)
		expect.Contains(w.t, message, "does not keep the description", "what Network %d says", i)
	}
	gone := func() error {
		if left := w.ours(); len(left) > 0 {
			return fmt.Errorf("resources are left: %v", left)
		}
		return nil
	}
	w.await(gone)
	for i := range drawnNetworks {
		w.deleteNetwork(w.namespace, drawnName(i))
	}
	for i := range drawnNetworks {
		w.awaitNetworkGone(w.namespace, drawnName(i))
	}
	w.await(gone)
	expect.NoError(w.t, w.habits.Set())
	w.crash()
	w.life()
}
