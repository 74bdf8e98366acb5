package inventory

import (
	"testing"
)

func TestPolicyMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"/dev/**", "/dev/a", true},
		{"/dev/**", "/dev/a/b/c", true},
		{"/dev/**", "/dev", false},
		{"/dev/**", "/devx/a", false},
		{"/dev/**", "/sys/dev/a", false},
		{"/**", "/x", true},
		{"/**", "/", false},
		{"/dev/acme*/**", "/dev/acme0/a", true},
		{"/dev/acme*/**", "/dev/acme0", false},
		{"/dev/acme*", "/dev/acme0", true},
		{"/dev/acme*", "/dev/acme0/a", false},
		{"/dev/acme[0-3]", "/dev/acme4", false},
		{"/dev/[", "/dev/[", false},
		{"/dev/[/**", "/dev/[/a", false},
		{"", "/dev/a", false},
		{"**", "/dev/a", false},
	} {
		if got := match(tc.pattern, tc.name); got != tc.want {
			t.Errorf("match(%q, %q) is %v", tc.pattern, tc.name, got)
		}
	}
	for _, name := range []string{"/dev/null", "/dev/dri/renderD128", "/dev/nvidia0", "/dev/kfd", "/dev/vfio/1", "/dev/accel/accel0",
		"/dev/xdma0_user", "/dev/infiniband/uverbs0", "/dev/dfl-fme.0", "/dev/ttyUSB0", "/dev/rbln0", "/dev/xclmgmt1"} {
		if err := testPolicy.checkDevice(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (Policy{}).checkDevice("/dev/null") == nil {
		t.Error("an empty policy allows a device")
	}
}
