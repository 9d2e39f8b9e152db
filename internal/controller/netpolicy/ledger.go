package netpolicy

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Limits of the policies of one namespace, in the order of their names.
const (
	// maxGroups is the most SecurityGroups that they may need. Those beyond it count as not read.
	maxGroups = 512
	// maxWhole is the most that are kept whole, not only by their headers. These are more than can be within maxGroups,
	// because each needs at least three. So one more at the front takes one out, and most changes have none read again.
	maxWhole = 256
)

// ledger has what handlers and syncs ask about the policies of namespaces. Each event of a policy changes it, so that
// no event of another kind and no sync walks through policies: what they look at has a bound for each namespace,
// however many policies tenants write.
type ledger struct {
	mu     sync.Mutex
	spaces map[string]*space
	// on counts the policies within maxGroups for each Network, by their namespaces, others those of them that name Pods
	// of other namespaces, and ports those that name ports. naming counts others for all Networks.
	on, others, ports map[cache.ObjectName]map[string]int
	naming            map[string]int
	// looked counts the policies that it looked at. It is for tests.
	looked int
}

func newLedger() *ledger {
	return &ledger{
		spaces: map[string]*space{}, on: map[cache.ObjectName]map[string]int{},
		others: map[cache.ObjectName]map[string]int{}, ports: map[cache.ObjectName]map[string]int{},
		naming: map[string]int{},
	}
}

// space is what a ledger has of one namespace.
type space struct {
	// byName are the policies that are for Networks, in the order of their names. The first ones, as many as within
	// says, are within maxGroups.
	byName []*Object
	within int
	// blind are the policies of which it is unknown for which Networks they are.
	blind map[string]*Object
	// on counts the policies within maxGroups for each Network, and beyond those beyond it.
	on, beyond map[cache.ObjectName]int
	// moved has the names of policies that are new, or came within maxGroups or beyond it, since the last sync. It is
	// true for those that did so without an event about them.
	moved map[string]bool
	// told has what Events said about policies.
	told map[string]told
	// coming has the names of policies that are kept whole and not noted yet.
	coming map[string]bool
}

// noSpace is that of a namespace without policies. It is never changed.
var noSpace = &space{}

// told is what Events said about a policy: the hash of the last text, and whether one said that it is beyond maxGroups.
// The latter is said once for each policy: who writes one at the front may move many.
type told struct {
	of     types.UID
	text   uint64
	beyond bool
}

// space gives that of a namespace.
func (l *ledger) space(namespace string) *space {
	s := l.spaces[namespace]
	if s == nil {
		s = &space{
			blind: map[string]*Object{}, on: map[cache.ObjectName]int{}, beyond: map[cache.ObjectName]int{},
			moved: map[string]bool{}, told: map[string]told{}, coming: map[string]bool{},
		}
		l.spaces[namespace] = s
	}
	return s
}

// find gives the place of a policy in byName.
func (s *space) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(s.byName, name, func(o *Object, name string) int { return cmp.Compare(o.Name, name) })
}

// admit decides whether a policy that the cache is about to have is kept whole. It may drop one that is needed later:
// Controller reads that again.
func (l *ledger) admit(o *Object) {
	if len(o.On) == 0 {
		return // there is nothing of it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.space(o.Namespace)
	switch at, found := s.find(o.Name); {
	case at >= maxWhole || !found && len(s.coming) >= maxWhole:
		o.says.Store(nil)
	case !found:
		s.coming[o.Name] = true
	}
}

// note has the ledger agree with the cache about the policy of a name: it is o, or there is none.
func (l *ledger) note(namespace, name string, o *Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.space(namespace)
	delete(s.coming, name)
	at, found := s.find(name)
	if found && s.byName[at] == o || !found && o != nil && s.blind[name] == o {
		return
	}
	if found {
		l.remove(s, at)
	}
	delete(s.blind, name)
	if o == nil || s.told[name].of != o.UID {
		delete(s.told, name)
	}
	delete(s.moved, name)
	switch {
	case o == nil:
	case len(o.On) > 0:
		l.insert(s, at, o)
	case !o.Read:
		s.blind[name], s.moved[name] = o, false
	}
	l.settle(s, name)
	if len(s.byName)+len(s.blind)+len(s.coming) == 0 {
		delete(l.spaces, namespace)
	}
}

// remove takes a policy out.
func (l *ledger) remove(s *space, at int) {
	l.count(s, s.byName[at], at < s.within, -1)
	if at < s.within {
		s.within--
	}
	s.byName = slices.Delete(s.byName, at, at+1)
}

// insert puts a policy in, and drops what is too much of those beyond maxWhole. Since one was put in, that is one.
func (l *ledger) insert(s *space, at int, o *Object) {
	s.byName = slices.Insert(s.byName, at, o)
	s.moved[o.Name] = false
	l.count(s, o, at < s.within, 1)
	if at < s.within {
		s.within++
	}
	if len(s.byName) > maxWhole {
		s.byName[max(at, maxWhole)].says.Store(nil)
	}
}

// settle decides which policies are within maxGroups, after an event about one. Each of them needs groups, so it looks
// at no more than so many.
func (l *ledger) settle(s *space, about string) {
	within, sum := 0, 0
	for ; within < len(s.byName); within++ {
		l.looked++
		if sum += s.byName[within].cost; sum > maxGroups {
			break
		}
	}
	move := func(o *Object, isWithin bool) {
		l.count(s, o, !isWithin, -1)
		l.count(s, o, isWithin, 1)
		s.moved[o.Name] = o.Name != about
	}
	for ; s.within < within; s.within++ {
		move(s.byName[s.within], true)
	}
	for ; s.within > within; s.within-- {
		move(s.byName[s.within-1], false)
	}
}

// count counts a policy that is within maxGroups, or beyond it.
func (l *ledger) count(s *space, o *Object, within bool, by int) {
	if !within {
		for _, on := range o.On {
			add(s.beyond, on, by)
		}
		return
	}
	for _, on := range o.On {
		add(s.on, on, by)
		addIn(l.on, on, o.Namespace, by)
		if o.namesOthers {
			addIn(l.others, on, o.Namespace, by)
		}
		if o.namesPorts {
			addIn(l.ports, on, o.Namespace, by)
		}
	}
	if o.namesOthers {
		add(l.naming, o.Namespace, by)
	}
}

// add adds to a count, and addIn to one of a namespace. None is kept that is 0.
func add[K comparable](counts map[K]int, of K, by int) {
	if counts[of] += by; counts[of] == 0 {
		delete(counts, of)
	}
}

func addIn(counts map[cache.ObjectName]map[string]int, on cache.ObjectName, namespace string, by int) {
	if counts[on] == nil {
		counts[on] = map[string]int{}
	}
	if add(counts[on], namespace, by); len(counts[on]) == 0 {
		delete(counts, on)
	}
}

// of gives the policies of a namespace that are within maxGroups, in the order of their names, and whether there are
// others that count as not read.
func (l *ledger) of(namespace string) (within []*Object, others bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := cmp.Or(l.spaces[namespace], noSpace)
	l.looked += s.within
	return slices.Clone(s.byName[:s.within]), len(s.byName) > s.within || len(s.blind) > 0
}

// counts reports whether the policy of an object's name is within maxGroups.
func (l *ledger) counts(o *Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := cmp.Or(l.spaces[o.Namespace], noSpace)
	at, found := s.find(o.Name)
	return found && at < s.within
}

// concerning gives the policies within maxGroups that are for a Network, and whether others that count as not read are,
// or may be.
func (l *ledger) concerning(namespace string, on cache.ObjectName) (within []*Object, others bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := cmp.Or(l.spaces[namespace], noSpace)
	for _, o := range s.byName[:s.within] {
		l.looked++
		if slices.Contains(o.On, on) {
			within = append(within, o)
		}
	}
	return within, s.beyond[on] > 0 || len(s.blind) > 0
}

// networksOf gives the Networks that policies of a namespace within maxGroups are for.
func (l *ledger) networksOf(namespace string) (all []cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for on := range cmp.Or(l.spaces[namespace], noSpace).on {
		l.looked++
		all = append(all, on)
	}
	return all
}

// takeMoved gives the policies that, since it was called last, came within maxGroups without an event about them, are
// beyond it as no Event said yet, or are new and for unknown Networks. All are in the order of their names.
func (l *ledger) takeMoved(namespace string) (within, beyond, blind []*Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := cmp.Or(l.spaces[namespace], noSpace)
	for _, name := range slices.Sorted(maps.Keys(s.moved)) {
		l.looked++
		switch at, found := s.find(name); {
		case found && at < s.within && s.moved[name]:
			within = append(within, s.byName[at])
		case found && at >= s.within && !s.told[name].beyond:
			beyond = append(beyond, s.byName[at])
		case !found && s.blind[name] != nil:
			blind = append(blind, s.blind[name])
		}
	}
	clear(s.moved)
	return within, beyond, blind
}

// isNews records what an Event is to say about a policy, by a hash that is 0 for nothing; with beyond, it is that the
// policy is beyond maxGroups. It reports whether the Event is to be sent.
func (l *ledger) isNews(o *Object, text uint64, beyond bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := cmp.Or(l.spaces[o.Namespace], noSpace)
	if _, found := s.find(o.Name); !found && s.blind[o.Name] == nil {
		return false // it is gone
	}
	was := s.told[o.Name]
	is := told{of: o.UID, text: text, beyond: was.beyond}
	if beyond {
		is.text, is.beyond = was.text, true
	}
	s.told[o.Name] = is
	return is != was && (beyond || text != 0)
}

// namespacesOn gives the namespaces of policies within maxGroups that are for a Network; of those that name Pods of
// other namespaces if others is true.
func (l *ledger) namespacesOn(on cache.ObjectName, others bool) (keys []cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.on
	if others {
		from = l.others
	}
	return l.keysOf(from[on])
}

// namesPorts reports whether policies of a namespace within maxGroups that are for a Network name ports.
func (l *ledger) namesPorts(on cache.ObjectName, namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ports[on][namespace] > 0
}

// namespacesNaming gives the namespaces of policies within maxGroups that name Pods of other namespaces.
func (l *ledger) namespacesNaming() []cache.ObjectName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keysOf(l.naming)
}

func (l *ledger) keysOf(counts map[string]int) (keys []cache.ObjectName) {
	for namespace := range counts {
		l.looked++
		keys = append(keys, key(namespace))
	}
	return keys
}
