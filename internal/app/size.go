package app

import (
	"reflect"
	"time"
)

var timeType = reflect.TypeFor[time.Time]()

// deepSize is about how many bytes a value takes, with all that it leads to. What two pointers lead to counts twice: a
// decoder shares nothing.
func deepSize(value any) int {
	v := reflect.ValueOf(value)
	return int(v.Type().Size()) + reached(v)
}

// mapEntry is what a map takes for an entry beside its key and value.
const mapEntry = 16

// reached is how many bytes a value leads to, beside its own.
func reached(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int(v.Elem().Type().Size()) + reached(v.Elem())
		}
	case reflect.Slice:
		size = (v.Cap() - v.Len()) * int(v.Type().Elem().Size())
		for i := range v.Len() {
			size += int(v.Type().Elem().Size()) + reached(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			size += reached(v.Index(i))
		}
	case reflect.Map:
		each := int(v.Type().Key().Size()+v.Type().Elem().Size()) + mapEntry
		for entries := v.MapRange(); entries.Next(); {
			size += each + reached(entries.Key()) + reached(entries.Value())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 0 // its location is shared
		}
		for _, field := range v.Fields() {
			size += reached(field)
		}
	}
	return size
}
