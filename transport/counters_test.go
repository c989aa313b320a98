package transport

import (
	"reflect"
	"testing"
)

// Every counter is summed, also one that is added later.
func TestCounters_AddSumsEveryField(t *testing.T) {
	var a, b Counters
	va, vb := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range va.NumField() {
		va.Field(i).SetUint(uint64(i + 1))
		vb.Field(i).SetUint(uint64(1000 * (i + 1)))
	}
	a.Add(&b)
	for i := range va.NumField() {
		if got, want := va.Field(i).Uint(), uint64(1001*(i+1)); got != want {
			t.Errorf("%s is %d, want %d", va.Type().Field(i).Name, got, want)
		}
	}
}
