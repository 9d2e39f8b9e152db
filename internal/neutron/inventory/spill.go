package inventory

import (
	"cmp"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// spill takes a step in the subnets that its port prefers. While one of them has no address, it takes the step in the
// next that serves instead. What is known to be full costs no call.
func (i *Inventory) spill(step *plan.Step, take func(*plan.Step) (revision int, err error)) (revision int, err error) {
	for n, addresses := range i.choicesOf(*step) {
		choice := *step
		choice.Port.Addresses = addresses
		revision, failed := take(&choice)
		if n == 0 || failed == nil {
			err = failed
		}
		if failed == nil {
			*step = choice
			return revision, nil
		}
		if !client.IsKind(failed, client.Exhausted) || client.MaybeDone(failed) {
			return 0, failed
		}
	}
	return 0, err
}

// choicesOf returns the addresses to ask for, one combination of subnets after the other. Subnets that are full by the
// Inventory's count come last: the count may be old.
func (i *Inventory) choicesOf(step plan.Step) [][]plan.PortAddress {
	var full map[string]int
	if len(step.Port.Overflow) > 0 {
		full = i.fullOn(step.NetworkRef.ID)
	}
	choices := [][]plan.PortAddress{nil}
	for _, a := range step.Port.Addresses {
		serve := []string{a.SubnetID}
		if others := step.Port.Overflow[a.SubnetID]; len(others) > 0 && !a.Address.IsValid() {
			serve = slices.Concat(serve, others)
			slices.SortStableFunc(serve, func(a, b string) int { return cmp.Compare(full[a], full[b]) })
		}
		var next [][]plan.PortAddress
		for _, subnet := range serve {
			for _, choice := range choices {
				next = append(next, append(slices.Clone(choice), plan.PortAddress{SubnetID: subnet, Address: a.Address}))
			}
		}
		choices = next
	}
	return choices
}

// fullOn returns 1 for each subnet of a network that has no free address by the Inventory's count.
func (i *Inventory) fullOn(network string) map[string]int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	full := map[string]int{}
	if held, ours := i.networks.held[network]; ours {
		for _, s := range held.Subnets {
			if s.Used == nil {
				continue
			}
			if free, _ := i.freeIn(s); free+i.room.freed[s.ID] <= 0 {
				full[s.ID] = 1
			}
		}
	}
	return full
}
