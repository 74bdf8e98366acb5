package inventory

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies for each field, found by reflection, that equalDevice compares it.
func TestEqualDevice(t *testing.T) {
	make2 := func() (*Device, *Device) {
		var out [2]*Device
		for i := range out {
			s, _ := newTestStore(t)
			w := wireDevice("a")
			w.Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "c", Message: "m",
				Recovery: backendv1.Recovery_RECOVERY_SELF}
			w.Links = []*backendv1.Link{{PeerId: "b", Kind: backendv1.LinkKind_LINK_KIND_NVLINK}}
			out[i] = mustReport(t, s, inv(1, w, wireDevice("b"))).Devices[0]
		}
		return out[0], out[1]
	}
	a, b := make2()
	if !equalDevice(a, b) {
		t.Fatal("equal devices differ")
	}
	var leaves int
	var visit func(path string, get func(d *Device) reflect.Value)
	visit = func(path string, get func(d *Device) reflect.Value) {
		a, b := make2()
		v := get(b)
		change := func(set func()) {
			leaves++
			set()
			if equalDevice(a, b) {
				t.Errorf("a change of %s goes unnoticed", path)
			}
		}
		switch v.Kind() {
		case reflect.Struct:
			if at, ok := v.Interface().(time.Time); ok {
				change(func() { v.Set(reflect.ValueOf(at.Add(1))) })
				return
			}
			for i := range v.NumField() {
				visit(path+"."+v.Type().Field(i).Name, func(d *Device) reflect.Value { return get(d).Field(i) })
			}
		case reflect.Slice:
			change(func() { v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()))) })
			for i := range get(a).Len() {
				visit(fmt.Sprintf("%s[%d]", path, i), func(d *Device) reflect.Value { return get(d).Index(i) })
			}
		case reflect.String:
			change(func() { v.SetString(v.String() + "x") })
		case reflect.Bool:
			change(func() { v.SetBool(!v.Bool()) })
		case reflect.Int, reflect.Int64:
			change(func() { v.SetInt(v.Int() + 1) })
		case reflect.Uint32:
			change(func() { v.SetUint(v.Uint() + 1) })
		case reflect.Interface: // the values of attributes; of strings, the type is another, too
			text, _ := v.Interface().(string)
			change(func() { v.Set(reflect.ValueOf(Version(text))) })
		default:
			t.Fatalf("%s is of kind %s, which this test does not change yet", path, v.Kind())
		}
	}
	visit("Device", func(d *Device) reflect.Value { return reflect.ValueOf(d).Elem() })
	if leaves < 30 {
		t.Errorf("only %d fields were changed", leaves)
	}
}
