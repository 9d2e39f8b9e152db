package plan

import "slices"

// takeBacks are the fields that stay unchanged if the spec never set them. If the spec stops to set one, the controller
// empties it.
var takeBacks = []string{FieldDNSDomain, FieldExternal, FieldQoSPolicy, FieldShared, FieldSharedWith, FieldTags}

// Sets names the fields of takeBacks to which the spec gives a value, in alphabetical order. A field that is declared
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

// takingBack returns the spec for an existing network, with the fields to take back declared empty. A new network has
// nothing to take back, and its cloud may not even support the field.
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

// emptied returns the declared value. If the spec sets none and the network has one, it returns the zero value.
func emptied[T any](declared, actual *T) *T {
	if declared != nil || actual == nil {
		return declared
	}
	return new(T)
}
