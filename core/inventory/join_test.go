package inventory

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// joining is a device that joins a variable V by a separator; "" sets it without.
func joining(id, value, separator string) *Device {
	d := &Device{Key: Key{"mock", id}, Edits: Edits{Env: Named(map[string]string{"V": value})}}
	if separator != "" {
		d.Edits.EnvSeparators = Named(map[string]string{"V": separator})
	}
	return d
}

// Verifies that values are joined in the order of the devices' IDs, each part once, whatever
// the order of the devices.
func TestJoinEnv(t *testing.T) {
	for name, tc := range map[string]struct {
		devices []*Device
		want    map[string]string
	}{
		"nothing is joined": {[]*Device{joining("a", "1", "")}, nil},
		"order":             {[]*Device{joining("b", "2", ","), joining("c", "1", ","), joining("a", "3", ",")}, map[string]string{"V": "3,2,1"}},
		"prefix of an ID":   {[]*Device{joining("a-1", "2", ","), joining("a", "1", ",")}, map[string]string{"V": "1,2"}},
		"parts":             {[]*Device{joining("a", "1;2", ";"), joining("b", "2;3", ";")}, map[string]string{"V": "1;2;3"}},
		"twice":             {[]*Device{joining("a", "1", ","), joining("a", "1", ",")}, map[string]string{"V": "1"}},
		"empty parts":       {[]*Device{joining("a", "", ","), joining("b", ",2,", ",")}, map[string]string{"V": "2"}},
		"others do without": {[]*Device{joining("a", "1", ","), {Key: Key{"mock", "b"}}}, map[string]string{"V": "1"}},
	} {
		got, err := JoinEnv(tc.devices)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if says := DisagreeOnEnv(tc.devices); len(says) > 0 {
			t.Errorf("%s: they disagree: %q", name, says)
		}
	}
}

// Verifies that devices that disagree are named, once for each variable.
func TestJoinEnvDisagree(t *testing.T) {
	for name, tc := range map[string]struct {
		devices []*Device
		want    []string
	}{
		"separators":      {[]*Device{joining("a", "1", ","), joining("b", "1", ";"), joining("c", "1", " ")}, []string{"V", `","`, `";"`, "mock/a", "mock/b"}},
		"one does not":    {[]*Device{joining("a", "1", ""), joining("b", "1", ",")}, []string{"V", "not joined for device mock/a", "mock/b"}},
		"also equal ones": {[]*Device{joining("a", "1", ","), joining("b", "1", "")}, []string{"V", "not joined for device mock/b", "mock/a"}},
	} {
		env, err := JoinEnv(tc.devices)
		if err == nil {
			t.Errorf("%s: joined: %v", name, env)
			continue
		}
		says := DisagreeOnEnv(tc.devices)
		if len(says) != 1 || says[0] != err.Error() {
			t.Errorf("%s: %q, and %q", name, err, says)
		}
		for _, part := range tc.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
	}
}
