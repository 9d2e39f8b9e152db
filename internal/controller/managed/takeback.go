package managed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Retractable is the Declaration of an object whose spec can set what is others' to change while the spec does not set
// it. What the spec set and sets no longer is taken back, once.
type Retractable interface {
	Declaration
	// Sets names the fields of that sort that the spec sets, in alphabetical order.
	Sets() []string
	// TakingBack is the declaration that also takes back the named fields, where the spec does not set them.
	TakingBack(fields []string) Declaration
}

// takingBack is the declaration with what an earlier spec of the object set and this one does not. Once this one was
// applied whole, that is done: what is there since then is others'.
func (r *Reconciler[T]) takingBack(obj T, declared Declaration) Declaration {
	retractable, ok := declared.(Retractable)
	if !ok || r.kind.Status(obj).AppliedGeneration == obj.GetGeneration() {
		return declared
	}
	set := retractable.Sets()
	fields := slices.DeleteFunc(remembered(obj), func(field string) bool { return slices.Contains(set, field) })
	if len(fields) == 0 {
		return declared
	}
	return retractable.TakingBack(fields)
}

// remembered are the fields that were set for the object, in alphabetical order.
func remembered(obj Object) []string {
	var noted cloudteamv1.TakeBack
	err := json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationTakeBack]), &noted)
	if err != nil || noted.UID != obj.GetUID() {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(noted.Fields)))
}

// annotationOf is the annotation that remembers the fields; nil, which removes it, where there are none.
func annotationOf(obj Object, fields []string) (any, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(cloudteamv1.TakeBack{UID: obj.GetUID(), Fields: fields})
	return string(text), err
}

// rememberSet remembers the fields that the declaration sets, beside those that are remembered. It comes before each
// request that may carry one of them. As a rule they are remembered already, and nothing is written.
func (r *Reconciler[T]) rememberSet(ctx context.Context, obj T, declared Declaration) (T, error) {
	return r.rememberFields(ctx, obj, setOrRemembered(obj, declared))
}

// setOrRemembered are the fields that the declaration sets, and those that are remembered.
func setOrRemembered(obj Object, declared Declaration) []string {
	fields := remembered(obj)
	if retractable, ok := declared.(Retractable); ok {
		fields = append(fields, retractable.Sets()...)
	}
	return slices.Compact(slices.Sorted(slices.Values(fields)))
}

// rememberOnlySet remembers the fields that the declaration sets and no others. It comes after all was seen to be as
// declared, and before the status says so.
func (r *Reconciler[T]) rememberOnlySet(ctx context.Context, obj T, declared Declaration) error {
	retractable, ok := declared.(Retractable)
	if !ok {
		return nil
	}
	_, err := r.rememberFields(ctx, obj, retractable.Sets())
	return err
}

func (r *Reconciler[T]) rememberFields(ctx context.Context, obj T, fields []string) (T, error) {
	if slices.Equal(fields, remembered(obj)) {
		return obj, nil
	}
	annotation, err := annotationOf(obj, fields)
	if err != nil {
		return obj, err
	}
	written, err := r.patchMetadata(ctx, cache.MetaObjectToName(obj), obj, map[string]any{
		"annotations": map[string]any{cloudteamv1.AnnotationTakeBack: annotation},
	})
	if err != nil {
		return obj, &notRemembered{err}
	}
	return written, nil
}

// notRemembered says that the annotation was not written. Nothing of the object's is reported then, as where the
// finalizer was not written.
type notRemembered struct{ err error }

func (e *notRemembered) Error() string {
	return fmt.Sprintf("writing the annotation %s: %s", cloudteamv1.AnnotationTakeBack, e.err)
}

// Unwrap gives the API server's answer.
func (e *notRemembered) Unwrap() error { return e.err }
