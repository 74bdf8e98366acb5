package inventory

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
	if err := (Policy{}).checkDevice("/dev/kvm"); err == nil {
		t.Error("an empty policy allows a device")
	}
	if err := (Policy{}).checkDevice("/dev/null"); err != nil {
		t.Errorf("what every container has: %v", err)
	}
}

// Verifies that paths to memory, disks or the kernel are refused below any root, in every kind
// of path, also if the configuration allows everything, and that no others are.
func TestPolicyDeniesBelowAnyRoot(t *testing.T) {
	all := Policy{Allowed: everything, Declared: everything}
	refused := func(name string) int {
		n := 0
		mount := func(name string) error { return all.checkMount(name, true) }
		for _, check := range []func(string) error{all.checkDevice, mount, all.checkHook} {
			var policy *policyError
			if err := check(name); errors.As(err, &policy) && strings.Contains(err.Error(), "never given to a container") {
				n++
			}
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"host", "run", "driver", "dev", "devices", "1", "rootfs", "nvidia0", "d", "..."}), 0, 5).Draw(t, "root")
		root := strings.Join(append([]string{""}, parts...), "/")
		bad := root + rapid.SampledFrom([]string{
			"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/sda", "/dev/sda1", "/dev/nvme0n1p2", "/dev/vdb", "/dev/dm-0", "/dev/loop0", "/dev/sg1",
			"/dev/block/8:0", "/dev/char/1:1", "/dev/cpu/0/msr", "/dev/disk/by-id/x", "/dev/mapper/root", "/dev/watchdog0", "/dev/md/x/y",
			"/dev/mapper/dev/null", "/dev/disk/dev/x/y", "/dev/block", "/dev/char", "/dev/cpu", "/dev/disk", "/dev/mapper", "/dev/zvol", "/dev/root",
			"/proc/driver/acme", "/proc/version", "/proc/1", "/proc/1/root/etc/passwd", "/proc/self/root", "/proc/thread-self/fd/3", "/proc/self",
			"/dev/dax0.0", "/dev/cxl/mem0", "/dev/raw/raw1", "/dev/crash", "/dev/zfs", "/dev/mpt3ctl", "/dev/ipmi0",
		}).Draw(t, "bad")
		if n := refused(bad); n != 3 {
			t.Fatalf("%s is refused as %d of node, mount and hook", bad, n)
		}
		good := root + rapid.SampledFrom([]string{
			"/dev/null", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/dri/renderD128", "/dev/kfd", "/mem", "/sda",
			"/devices/mem", "/mydev/sda", "/dev.old/mem", "/lib/dev-mem", "/dev/infiniband/uverbs0", "/dev/x/mem", "/process/x",
		}).Draw(t, "good")
		// Below a root that ends in dev, sda and mem are those nodes.
		if strings.HasSuffix(root, "/dev") && (strings.HasSuffix(good, "/dev/mem") || strings.HasSuffix(good, "/dev/sda")) {
			return
		}
		if n := refused(good); n != 0 {
			t.Fatalf("%s is refused", good)
		}
	})
}

// Verifies that some variables are never set, also if the configuration allows every name.
func TestPolicyEnv(t *testing.T) {
	all := Policy{Declared: everything}
	for c := range 256 {
		if name := string(rune(c)); nameSyntax.MatchString(name) {
			all.Allowed.Env = append(all.Allowed.Env, name+"*")
		}
	}
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "KUBERNETES_SERVICE_HOST", "PATH"} {
		if all.checkEnv(name) == nil {
			t.Errorf("%s is allowed where everything is", name)
		}
	}
}

// Verifies that the path of a directory, without wildcards, stands for the device nodes below it, in a manifest and in the
// configuration; and that what is never given there stays so.
func TestDirectoriesOfNodes(t *testing.T) {
	for _, c := range []struct {
		declared, allowed, node string
		want                    string
	}{
		{"/dev/snd", "", "/dev/snd/controlC0", ""},
		{"/dev/snd", "", "/dev/snd/more/x", ""},
		{"/dev/snd", "", "/dev/snd", ""},
		{"/dev/snd", "", "/dev/sndx", "allow: {devices: [/dev/sndx]}"},
		{"/dev/snd*", "", "/dev/snd/controlC0", "allow: {devices: [/dev/snd/controlC0]}"},
		{"/dev/vfio", "", "/dev/vfio/8", ""},
		{"/dev", "", "/dev/snd/timer", ""},
		{"/dev", "", "/dev/sda", "never given"},
		{"", "/dev/snd", "/dev/snd/controlC0", ""},
		{"", "/dev/snd*", "/dev/snd/controlC0", "{devices: [/dev/snd/controlC0]}"},
		{"", "/dev/cpu", "/dev/cpu/0/msr", "never given"},
		{"", "/dev/disk", "/dev/disk/by-id/x", "never given"},
	} {
		policy := Policy{AcceptDeclared: true}
		if c.declared != "" {
			policy.Declared.Devices = []string{c.declared}
		}
		if c.allowed != "" {
			policy.Allowed.Devices = []string{c.allowed}
		}
		_, _, err := ParseEdits(policy, nodeEdits(c.node))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
