package plantest

import (
	"reflect"
	"strconv"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Clone returns a copy that shares nothing with the original. It does not look into fields that are not exported, such
// as those of an address or a time, which nobody can change.
func Clone[T any](value T) T {
	unshare(reflect.ValueOf(&value).Elem())
	return value
}

// unshare has a value point to copies.
func unshare(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				unshare(field)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			pointer := reflect.New(v.Type().Elem())
			pointer.Elem().Set(v.Elem())
			unshare(pointer.Elem())
			v.Set(pointer)
		}
	case reflect.Slice:
		if !v.IsNil() {
			list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(list, v)
			for at := range list.Len() {
				unshare(list.Index(at))
			}
			v.Set(list)
		}
	case reflect.Map:
		if !v.IsNil() {
			all := reflect.MakeMap(v.Type())
			for of := v.MapRange(); of.Next(); {
				one := reflect.New(v.Type().Elem()).Elem()
				one.Set(of.Value())
				unshare(one)
				all.SetMapIndex(of.Key(), one)
			}
			v.Set(all)
		}
	}
}

// OneOfEach has a resource of each kind, with the owner's marker and its place in Observed as its id. With it a test
// holds that something knows each kind.
func OneOfEach(owner plan.Owner) (o plan.Observed) {
	kinds := reflect.ValueOf(&o).Elem()
	for at := range kinds.NumField() {
		list := kinds.Field(at)
		one := reflect.New(list.Type().Elem()).Elem()
		one.FieldByName("ID").SetString(strconv.Itoa(at))
		one.FieldByName("Description").SetString(owner.Marker())
		list.Set(reflect.Append(list, one))
	}
	return o
}
