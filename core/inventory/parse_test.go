package inventory

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestReportKeepsEverythingValid(t *testing.T) {
	s, c := newTestStore(t)
	policy := testPolicy
	policy.Host.NetHook = "/var/lib/accelmux/accelmux-net-hook"
	s.SetPolicies(map[string]Policy{"mock": policy})
	a, b := wireDevice("GPU-a"), wireDevice("GPU-b")
	a.Links = []*backendv1.Link{{PeerId: "GPU-b", Kind: backendv1.LinkKind_LINK_KIND_PCIE_SWITCH, Distance: 20}}
	got := mustReport(t, s, inv(1, a, b))
	want := &Device{
		Key: Key{"mock", "GPU-a"}, Class: "gpu", Health: Health{State: StateHealthy, Message: "fine"},
		NUMANodes: []int{0, 1}, PCIBusID: "0000:65:00.0",
		Attributes: Named(map[string]Attribute{
			"model": {"M1"}, "cores": {int64(64)}, "mig": {true}, "driver": {Version("535.104.5")},
		}),
		Capacities: Named(map[string]int64{"memory": 1 << 30}), Parent: "board-1", ResetGroup: "rack 1/board 1",
		Links: []Link{{Peer: "GPU-b", Kind: "pcie_switch", Count: 1, Distance: 20}},
		Edits: Edits{
			Env:           Named(map[string]string{"ACME_DEVICE": "GPU-a"}),
			EnvSeparators: Named(map[string]string{"ACME_DEVICE": ","}),
			DeviceNodes:   []DeviceNode{{Path: "/dev/acme0", HostPath: "/dev/acme0", Permissions: "rw"}},
			Mounts:        []Mount{{HostPath: "/opt/acme/lib", ContainerPath: "/usr/lib/acme", Options: []string{"nosuid"}}},
			Hooks: []OCIHook{{Name: "createContainer", Path: "/usr/bin/acme-hook", Args: []string{"acme-hook", "-v"},
				Env: []string{"A=b"}},
				{Name: "createRuntime", Path: "/var/lib/accelmux/accelmux-net-hook", Args: []string{"accelmux-net-hook", "enter", "can0", "can0"}},
				{Name: "poststop", Path: "/var/lib/accelmux/accelmux-net-hook", Args: []string{"accelmux-net-hook", "leave", "can0", "can0"}}},
			AdditionalGIDs: []uint32{27, 44},
			NetDevices:     []NetDevice{{HostName: "can0", Name: "can0"}},
		},
		Hooks:       Hooks{Prepare: true, Release: true},
		PreparedFor: 3,
	}
	if diff := cmp.Diff(want, got.Devices[0]); diff != "" {
		t.Error(diff)
	}
	if len(got.Devices) != 2 || len(got.Problems) != 0 || !got.ReceivedAt.Equal(c.t) || got.Generation != 1 {
		t.Errorf("backend is %+v", got)
	}
}

// Verifies for one defect at a time that the device is left out, that the device beside it
// stays, and that the problem names the device and the reason.
func TestDeviceLeftOut(t *testing.T) {
	type device = backendv1.Device
	edits := func(change func(e *backendv1.ContainerEdits)) func(*device) {
		return func(d *device) { change(d.Edits) }
	}
	node := func(n *backendv1.DeviceNode) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.DeviceNodes = []*backendv1.DeviceNode{n} })
	}
	host := func(path string) func(*device) {
		return node(&backendv1.DeviceNode{Path: "/dev/innocent", HostPath: path})
	}
	mount := func(m *backendv1.Mount) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.Mounts = []*backendv1.Mount{m} })
	}
	hook := func(h *backendv1.OciHook) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.Hooks = []*backendv1.OciHook{h} })
	}
	interfaces := func(all ...*backendv1.NetDevice) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.NetDevices = all })
	}
	env := func(name, value string) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.Env, e.EnvSeparators = map[string]string{name: value}, nil })
	}
	separator := func(name, separator string) func(*device) {
		return edits(func(e *backendv1.ContainerEdits) { e.EnvSeparators = map[string]string{name: separator} })
	}
	for name, tc := range map[string]struct {
		change func(d *device)
		want   string // part of the problem
	}{
		"no ID":               {func(d *device) { d.Id = "" }, "the ID is empty"},
		"long ID":             {func(d *device) { d.Id = strings.Repeat("x", 64) }, "64 characters; at most 63"},
		"replica mark in ID":  {func(d *device) { d.Id = "GPU::1" }, "marks replicas"},
		"dash first in ID":    {func(d *device) { d.Id = "-GPU" }, "start with a letter or digit"},
		"line feed after ID":  {func(d *device) { d.Id = "GPU\n" }, "must be of"},
		"duplicate ID":        {func(d *device) { d.Id = "good" }, "also that of device 1"},
		"class unknown":       {func(d *device) { d.Class = "npu" }, "none of those that the backend described (gpu, fpga)"},
		"class malformed":     {func(d *device) { d.Class = "GPU" }, "class \"GPU\" is malformed"},
		"NUMA -1":             {func(d *device) { d.NumaNodes = []uint32{math.MaxUint32} }, "where sysfs has -1"},
		"NUMA nodes":          {func(d *device) { d.NumaNodes = make([]uint32, 65) }, "names 65 NUMA nodes"},
		"PCI without domain":  {func(d *device) { d.PciBusId = "65:00.0" }, "PCI address"},
		"PCI upper case":      {func(d *device) { d.PciBusId = "0000:AF:00.0" }, "lower-case hex"},
		"parent":              {func(d *device) { d.ParentId = "a b" }, "the parent's ID"},
		"own parent":          {func(d *device) { d.ParentId = d.Id }, "its own parent"},
		"reset group long":    {func(d *device) { d.ResetGroup = strings.Repeat("x", 129) }, "the reset group has 129 bytes"},
		"reset group control": {func(d *device) { d.ResetGroup = "\x00" }, "the reset group"},
		"hook unknown":        {func(d *device) { d.Hooks = []backendv1.Hook{9} }, "hook 9"},
		"hooks":               {func(d *device) { d.Hooks = make([]backendv1.Hook, 17) }, "17 hooks"},

		"env name":      {env("a b", "x"), "has an invalid name"},
		"env name long": {env(strings.Repeat("A", 257), "x"), "at most 256"},
		"env NUL":       {env("A", "a\x00b"), "control characters"},
		"env DEL":       {env("A", "a\x7fb"), "control characters"},
		"env long":      {env("A", strings.Repeat("x", 4097)), "at most 4096"},
		"env preload":   {env("LD_PRELOAD", "/x.so"), "never set for a container"},
		"admin preload": {func(d *device) {
			d.AdminEdits = &backendv1.ContainerEdits{Env: map[string]string{"LD_PRELOAD": "/x.so"}}
		}, "for admin access: "},
		"env many":         {edits(func(e *backendv1.ContainerEdits) { e.Env = manyEnv(129) }), "129 environment variables"},
		"separator alone":  {separator("ACME_OTHER", ","), `"ACME_OTHER", which env does not have`},
		"separator empty":  {separator("ACME_DEVICE", ""), "separator of environment variable ACME_DEVICE is empty"},
		"separator long":   {separator("ACME_DEVICE", strings.Repeat(",", 17)), "at most 16"},
		"separator break":  {separator("ACME_DEVICE", ",\n"), "control characters"},
		"node many":        {edits(func(e *backendv1.ContainerEdits) { e.DeviceNodes = make([]*backendv1.DeviceNode, 257) }), "257 device nodes"},
		"mounts many":      {edits(func(e *backendv1.ContainerEdits) { e.Mounts = make([]*backendv1.Mount, 257) }), "257 mounts"},
		"OCI hooks many":   {edits(func(e *backendv1.ContainerEdits) { e.Hooks = make([]*backendv1.OciHook, 17) }), "17 hooks"},
		"gids many":        {edits(func(e *backendv1.ContainerEdits) { e.AdditionalGids = make([]uint32, 65) }), "65 additional group IDs"},
		"gid root":         {edits(func(e *backendv1.ContainerEdits) { e.AdditionalGids = []uint32{0} }), "group ID 0 is root's"},
		"interfaces many":  {edits(func(e *backendv1.ContainerEdits) { e.NetDevices = make([]*backendv1.NetDevice, 17) }), "17 network interfaces"},
		"interface name":   {interfaces(&backendv1.NetDevice{HostName: "can0/x"}), "no name of a network interface"},
		"interface dots":   {interfaces(&backendv1.NetDevice{HostName: "can0", Name: ".."}), "no name of a network interface"},
		"interface own":    {interfaces(&backendv1.NetDevice{HostName: "lo"}), "never given"},
		"interface policy": {interfaces(&backendv1.NetDevice{HostName: "eth0"}), "allow: {netDevices: [eth0]}"},
		"interface twice":  {interfaces(&backendv1.NetDevice{HostName: "can0"}, &backendv1.NetDevice{HostName: "can0", Name: "b"}), "two network interfaces"},
		"one name twice":   {interfaces(&backendv1.NetDevice{HostName: "can0"}, &backendv1.NetDevice{HostName: "can1", Name: "can0"}), "two network interfaces"},
		"node nil":         {node(nil), "in the container is empty"},
		"node dots":        {node(&backendv1.DeviceNode{Path: "/dev/a", HostPath: "/dev/x/../mem"}), `not clean; write "/dev/mem"`},
		"node control":     {node(&backendv1.DeviceNode{Path: "/dev/a\n"}), "control characters"},
		"node long":        {node(&backendv1.DeviceNode{Path: "/" + strings.Repeat("x", 4095)}), "at most 4095"},
		"node policy":      {host("/sys/x"), "allow: {devices: [/sys/x]}"},
		"node type":        {node(&backendv1.DeviceNode{Path: "/dev/a", Type: "p", Major: 1}), "the type \"p\"; it is c or b"},
		"node untyped":     {node(&backendv1.DeviceNode{Path: "/dev/a", Major: 240}), "the type \"\"; it is c or b"},
		"node major":       {node(&backendv1.DeviceNode{Path: "/dev/a", Type: "c", Minor: 3}), "the number 0:3; major is 1 to 4095"},
		"node big major":   {node(&backendv1.DeviceNode{Path: "/dev/a", Type: "c", Major: 4096}), "the number 4096:0"},
		"node big minor":   {node(&backendv1.DeviceNode{Path: "/dev/a", Type: "c", Major: 1, Minor: 1 << 20}), "the number 1:1048576"},
		"node permissions": {node(&backendv1.DeviceNode{Path: "/dev/a", Permissions: "rwx"}), "only r, w and m exist"},
		"node perm. twice": {node(&backendv1.DeviceNode{Path: "/dev/a", Permissions: "rr"}), "once"},
		"node twice": {edits(func(e *backendv1.ContainerEdits) {
			e.DeviceNodes = []*backendv1.DeviceNode{{Path: "/dev/a"}, {Path: "/dev/a", HostPath: "/dev/b"}}
		}), "two device nodes have the path"},
		"memory": {host("/dev/mem"), "never given"},

		"mount policy":    {mount(&backendv1.Mount{HostPath: "/srv/acme", ContainerPath: "/x"}), "allow: {mounts: ["},
		"mount root":      {mount(&backendv1.Mount{HostPath: "/", ContainerPath: "/x"}), "whole root"},
		"mount over root": {mount(&backendv1.Mount{HostPath: "/opt/acme/x", ContainerPath: "/"}), "the container's root"},
		"mount dots":      {mount(&backendv1.Mount{HostPath: "/opt/acme/../../etc", ContainerPath: "/x"}), "not clean"},
		"mount relative":  {mount(&backendv1.Mount{HostPath: "/opt/acme/x", ContainerPath: "x"}), "not absolute"},
		"mount option":    {mount(&backendv1.Mount{HostPath: "/opt/acme/x", ContainerPath: "/x", Options: []string{"rw"}}), `option "rw"`},
		"mount options":   {mount(&backendv1.Mount{HostPath: "/opt/acme/x", ContainerPath: "/x", Options: make([]string, 17)}), "17 options"},
		"mount twice": {edits(func(e *backendv1.ContainerEdits) { e.Mounts = append(e.Mounts, e.Mounts[0]) }),
			"two mounts have the path"},

		"OCI hook name":      {hook(&backendv1.OciHook{HookName: "prestart", Path: "/usr/bin/acme-hook"}), "hook name"},
		"OCI hook path":      {hook(&backendv1.OciHook{HookName: "poststop", Path: "acme-hook"}), "not absolute"},
		"OCI hook policy":    {hook(&backendv1.OciHook{HookName: "poststop", Path: "/bin/sh"}), "allow: {hooks: ["},
		"OCI hook argument":  {hook(&backendv1.OciHook{HookName: "poststop", Path: "/usr/bin/acme-hook", Args: []string{"\x00"}}), "an argument"},
		"OCI hook args":      {hook(&backendv1.OciHook{HookName: "poststop", Path: "/usr/bin/acme-hook", Args: make([]string, 257)}), "257 arguments"},
		"OCI hook env":       {hook(&backendv1.OciHook{HookName: "poststop", Path: "/usr/bin/acme-hook", Env: []string{"A"}}), "NAME=value"},
		"OCI hook env value": {hook(&backendv1.OciHook{HookName: "poststop", Path: "/usr/bin/acme-hook", Env: []string{"A=\n"}}), "control characters"},
		"OCI hook preload": {hook(&backendv1.OciHook{HookName: "poststop", Path: "/usr/bin/acme-hook", Env: []string{"LD_PRELOAD=x"}}),
			"never set"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			bad := wireDevice("bad")
			tc.change(bad)
			b := mustReport(t, s, inv(1, wireDevice("good"), bad, wireDevice("last")))
			if got := ids(b.Devices); got != "good last" {
				t.Errorf("devices are %q, want good and last", got)
			}
			if len(b.Problems) != 1 {
				t.Fatalf("problems are %+v, want one", b.Problems)
			}
			p := b.Problems[0]
			if !strings.HasPrefix(p.Message, "device 2 of the report is left out: ") && !strings.HasPrefix(p.Message, "the device is left out: ") || !strings.Contains(p.Message, tc.want) {
				t.Errorf("problem is %q, want device 2 and %q", p.Message, tc.want)
			}
			if p.Device != printableID(bad.Id) || p.Device == "" || !text.IsClean(p.Device+p.Message) {
				t.Errorf("problem names the device %q and says %q", p.Device, p.Message)
			}
			if len(p.Device) > 4*maxQuote || len(p.Message) > maxMessage {
				t.Errorf("problem is too long: %d and %d bytes", len(p.Device), len(p.Message))
			}
		})
	}
}

func manyEnv(n int) map[string]string {
	env := map[string]string{}
	for i := range n {
		env[fmt.Sprintf("E%d", i)] = ""
	}
	return env
}

// Verifies that values at the limits are accepted.
func TestLimitsAreInclusive(t *testing.T) {
	s, _ := newTestStore(t)
	d := wireDevice(strings.Repeat("x", 63))
	d.NumaNodes = []uint32{1023}
	d.PciBusId = "10000:ff:1f.7"
	d.Attributes = map[string]*backendv1.Attribute{}
	for i := range 31 {
		d.Attributes[fmt.Sprintf("a%031d", i)] = &backendv1.Attribute{Value: &backendv1.Attribute_StringValue{StringValue: strings.Repeat("x", 64)}}
	}
	d.Attributes["a"] = &backendv1.Attribute{Value: &backendv1.Attribute_VersionValue{VersionValue: "1.18446744073709551615.0-rc.1+b.007"}}
	d.Capacities = nil
	d.ResetGroup = strings.Repeat("x", 128)
	d.Edits.Env = manyEnv(128)
	d.Edits.EnvSeparators = map[string]string{"E0": strings.Repeat(",", 16)}
	d.Edits.DeviceNodes[0].Permissions = "mwr"
	d.Edits.DeviceNodes[0].HostPath = "/dev/acme/0"
	d.Health = &backendv1.Health{Message: strings.Repeat("x", 1024)}
	b := mustReport(t, s, inv(1, d))
	if len(b.Devices) != 1 || len(b.Problems) != 0 {
		t.Fatalf("problems: %+v", b.Problems)
	}
	if got := b.Devices[0].Edits.DeviceNodes[0]; got != (DeviceNode{Path: "/dev/acme0", HostPath: "/dev/acme/0", Permissions: "rwm"}) {
		t.Errorf("node is %+v", got)
	}
}

func TestHealth(t *testing.T) {
	const (
		healthy   = backendv1.HealthState_HEALTH_STATE_HEALTHY
		unhealthy = backendv1.HealthState_HEALTH_STATE_UNHEALTHY
		reset     = backendv1.Recovery_RECOVERY_RESET
	)
	for name, tc := range map[string]struct {
		wire   *backendv1.Health
		want   Health
		remark string
	}{
		"nothing":     {nil, Health{State: StateUnknown}, ""},
		"unspecified": {&backendv1.Health{Code: "x", Recovery: reset}, Health{State: StateUnknown}, ""},
		"newer state": {&backendv1.Health{State: 7}, Health{State: StateUnknown}, "state 7"},
		"healthy":     {&backendv1.Health{State: healthy, Code: "x", Recovery: reset}, Health{State: StateHealthy}, ""},
		"recovered":   {&backendv1.Health{State: healthy, Recovered: true}, Health{State: StateHealthy, Recovered: true}, ""},
		"fault": {&backendv1.Health{State: unhealthy, Code: "xid-79", Message: "gone", Recovery: backendv1.Recovery_RECOVERY_REBOOT},
			Health{State: StateUnhealthy, Code: "xid-79", Message: "gone", Recovery: RecoveryReboot, Reach: ReachDevice}, ""},
		"bad code":    {&backendv1.Health{State: unhealthy, Code: "a b", Recovery: reset}, Health{State: StateUnhealthy, Code: "unspecified", Recovery: RecoveryReset, Reach: ReachDevice}, `"a b"`},
		"no recovery": {&backendv1.Health{State: unhealthy, Code: "x"}, Health{State: StateUnhealthy, Code: "x", Recovery: RecoveryReset, Reach: ReachDevice}, "counts as RECOVERY_RESET"},
		"unhealthy and recovered": {&backendv1.Health{State: unhealthy, Code: "x", Recovery: reset, Recovered: true},
			Health{State: StateUnhealthy, Code: "x", Recovery: RecoveryReset, Reach: ReachDevice}, "recovered without being healthy"},
		"reach": {&backendv1.Health{State: unhealthy, Code: "x", Recovery: reset, Reach: backendv1.Reach_REACH_HOLDERS},
			Health{State: StateUnhealthy, Code: "x", Recovery: RecoveryReset, Reach: ReachHolders}, ""},
		"cleared": {&backendv1.Health{State: healthy, ClearedCodes: []string{"xid-79", "a", "a"}},
			Health{State: StateHealthy, Cleared: ",a,xid-79,"}, ""},
		"cleared badly": {&backendv1.Health{State: healthy, ClearedCodes: []string{"a b", "x"}},
			Health{State: StateHealthy, Cleared: ",x,"}, "1 of its cleared codes"},
		"unknown and recovered": {&backendv1.Health{Recovered: true}, Health{State: StateUnknown}, "recovered without being healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			d := wireDevice("GPU-a")
			d.Health = tc.wire
			b := mustReport(t, s, inv(1, d))
			if got := b.Devices[0].Health; got != tc.want {
				t.Errorf("health is %+v, want %+v", got, tc.want)
			}
			switch {
			case tc.remark == "" && len(b.Problems) > 0:
				t.Errorf("problems: %+v", b.Problems)
			case tc.remark != "" && (len(b.Problems) != 1 || !strings.Contains(b.Problems[0].Message, tc.remark) || b.Problems[0].Device != "GPU-a"):
				t.Errorf("problems are %+v, want %q", b.Problems, tc.remark)
			}
		})
	}
}

func TestHooksNeedTheAbility(t *testing.T) {
	for hook, desc := range map[backendv1.Hook]Description{
		backendv1.Hook_HOOK_PREPARE: {Classes: []string{"gpu"}, Release: true, Edits: testDesc.Edits},
		backendv1.Hook_HOOK_RELEASE: {Classes: []string{"gpu"}, Prepare: true, Edits: testDesc.Edits},
	} {
		s, _ := newTestStore(t)
		describe(s, "mock", desc, testPolicy)
		bad, good := wireDevice("bad"), wireDevice("good")
		bad.Hooks, good.Hooks = []backendv1.Hook{hook}, nil
		b := mustReport(t, s, inv(1, bad, good))
		if ids(b.Devices) != "good" || !strings.Contains(b.Problems[0].Message, "did not describe ABILITY_") {
			t.Errorf("%v: devices %s, problems %+v", hook, ids(b.Devices), b.Problems)
		}
	}
}
