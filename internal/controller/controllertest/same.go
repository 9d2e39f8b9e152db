package controllertest

import "testing"

// Edits are changes to an object, by what they change.
type Edits[T Object] map[string]func(T)

// WantSame holds what a handler's filter lets through: same MUST find an object different after each of the edits that
// matter, and the same after each of the others and after none. The edits get copies.
func WantSame[T Object](t *testing.T, same func(was, is T) bool, object T, matter, others Edits[T]) {
	t.Helper()
	if !same(object, object.DeepCopyObject().(T)) {
		t.Errorf("%T: a copy is not the same", object)
	}
	for want, edits := range map[bool]Edits[T]{false: matter, true: others} {
		for what, edit := range edits {
			edited := object.DeepCopyObject().(T)
			edit(edited)
			if same(object, edited) != want {
				t.Errorf("%T: after an edit of %s it is the same: %v, want %v", object, what, !want, want)
			}
		}
	}
}
