package managed

import (
	"context"
	"encoding/json"
	"slices"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// takingBack is the declaration that also takes back what an earlier spec of the object set and this one does not.
// After this spec was applied as a whole, those fields belong to others.
func (r *Reconciler[T]) takingBack(obj T, declared Declaration) Declaration {
	traits := declared.Traits()
	if traits.TakingBack == nil || r.applied(obj) {
		return declared
	}
	fields := slices.DeleteFunc(Remembered(obj), func(field string) bool { return slices.Contains(traits.Sets, field) })
	if len(fields) == 0 {
		return declared
	}
	return traits.TakingBack(fields)
}

// Remembered gives the fields that were set for the object, in alphabetical order.
func Remembered(obj Object) []string {
	var noted cloudteamv1.TakeBack
	err := json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationTakeBack]), &noted)
	if err != nil || noted.UID != obj.GetUID() {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(noted.Fields)))
}

// annotationOf gives the annotation that remembers the fields. Without fields it is nil, which removes the annotation.
func annotationOf(obj Object, fields []string) (any, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(cloudteamv1.TakeBack{UID: obj.GetUID(), Fields: fields})
	return string(text), err
}

// rememberedOrSet gives the remembered fields, and those that the declaration sets.
func rememberedOrSet(obj Object, declared Declaration) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(Remembered(obj), declared.Traits().Sets...))))
}

// remembering writes which fields are remembered, if others are now. Fields that the declaration sets are added before
// each request that may set one of them. The others are removed after everything was seen to be as declared, and before
// the status says so.
func (r *Reconciler[T]) remembering(ctx context.Context, obj T, fields []string) (T, error) {
	if slices.Equal(fields, Remembered(obj)) {
		return obj, nil
	}
	annotation, err := annotationOf(obj, fields)
	if err != nil {
		return obj, err
	}
	written, err := r.patchMetadata(ctx, obj, map[string]any{
		"annotations": map[string]any{cloudteamv1.AnnotationTakeBack: annotation},
	})
	if err != nil {
		return obj, &withoutReport{"writing the annotation " + cloudteamv1.AnnotationTakeBack, err}
	}
	return written, nil
}

// withoutReport says that the API server refused a request about the object itself. Then nothing about the object is
// reported, as with a finalizer that was not written.
type withoutReport struct {
	doing string
	err   error
}

func (e *withoutReport) Error() string { return e.doing + ": " + e.err.Error() }

// Unwrap gives the API server's answer.
func (e *withoutReport) Unwrap() error { return e.err }
