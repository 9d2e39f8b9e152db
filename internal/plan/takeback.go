package plan

import "slices"

// takeBacks are the fields whose absence leaves the network to others, and that are taken back when the spec sets them
// no longer.
var takeBacks = []string{FieldDNSDomain, FieldExternal, FieldQoSPolicy, FieldShared, FieldSharedWith, FieldTags}

// Sets names, in alphabetical order, the fields of takeBacks to which the spec gives a value. One that is declared
// empty has nothing to take back.
func (s Spec) Sets() []string {
	set := map[string]bool{
		FieldDNSDomain:  orEmpty(s.DNSDomain) != "",
		FieldExternal:   s.External != nil && *s.External,
		FieldQoSPolicy:  orEmpty(s.QoSPolicy) != "",
		FieldShared:     s.Shared != nil && *s.Shared,
		FieldSharedWith: len(s.SharedWith) > 0,
		FieldTags:       len(s.Tags) > 0,
	}
	return slices.DeleteFunc(slices.Clone(takeBacks), func(field string) bool { return !set[field] })
}

// takingBack is the spec for a network that exists: what is to be taken back of it is declared empty. A network that
// is yet to be made has nothing to take back, and its cloud may not even know the field.
func (s Spec) takingBack(n ObservedNetwork) Spec {
	for _, field := range s.TakeBack {
		switch field {
		case FieldDNSDomain:
			s.DNSDomain = emptied(s.DNSDomain, n.DNSDomain)
		case FieldExternal:
			s.External = emptied(s.External, n.External)
		case FieldQoSPolicy:
			s.QoSPolicy = emptied(s.QoSPolicy, n.QoSPolicy)
		case FieldShared:
			s.Shared = emptied(s.Shared, n.Shared)
		case FieldSharedWith:
			if s.SharedWith == nil {
				s.SharedWith = []string{}
			}
		case FieldTags:
			if s.Tags == nil {
				s.Tags = []string{}
			}
		}
	}
	return s
}

// emptied is what is declared of a setting, or that it is empty where the spec leaves it out and the network has it.
func emptied[T any](declared, actual *T) *T {
	if declared != nil || actual == nil {
		return declared
	}
	return new(T)
}
