package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/sandbox"
)

// TestDefaults verifies what an omitted field means, which the documentation of
// the types promises.
func TestDefaults(t *testing.T) {
	got, err := Load("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one := 1
	usual := Allocation{Policy: AllocateBestLinks, Links: LinksSum}
	want := &NodeConfig{APIVersion: APIVersion, Kind: Kind, Profiles: []Profile{{
		Name: "only",
		Backends: []Backend{{
			Name:      "mock",
			Command:   "accelmux-backend-mock",
			Settings:  Settings("{}"),
			Heartbeat: Duration(10 * time.Second),
			Holdover:  Duration(5 * time.Minute),
			Recovery:  RecoveryPolicy{Delay: Duration(3 * time.Second), Reset: ResetAuto},
			Allow:     EditPolicy{Declared: AcceptDeclared},
			Sandbox:   Sandbox{Mode: sandbox.Auto, User: UserAuto, PIDs: 512, CPUWeight: 100},
			Features: []string{
				"productName", "model", "family", "architecture", "sharing", "memory", "driverVersion", "firmware",
				"profile", "computePartition", "memoryPartition",
			},
			FeaturePrefix: "mock.accelmux.io",
			Telemetry:     TelemetryPolicy{Sample: SampleAuto, Interval: Duration(10 * time.Second)},
			DRA:           DRA{Driver: "mock.accelmux.io"},
		}},
		Resources: []Resource{
			{Name: "example.com/gpu", API: APIDevicePlugin, Replicas: 1, Injection: InjectAuto, AnnotationPrefix: "cdi.k8s.io", Registration: RegisterSocket, Reset: ResetDevicesNever, Allocation: usual},
			{Name: "example.com/shared", API: APIDevicePlugin, Replicas: 2, MaxReplicasPerContainer: &one, Injection: InjectAuto, AnnotationPrefix: "cdi.k8s.io", Registration: RegisterSocket, Reset: ResetDevicesNever, Allocation: usual},
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// TestEveryField verifies that each field arrives, and that an explicit zero or
// empty list is not taken for an omission.
func TestEveryField(t *testing.T) {
	got, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	want := Profile{
		Name: "default",
		Backends: []Backend{{
			Name:             "mock",
			Command:          "accelmux-backend-mock",
			ManifestChecksum: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Env:              map[string]string{"MOCK_DEBUG": "1"},
			Settings:         Settings(`{"count":4,"devices":[{"id":"Dev-1","numa":0},{"id":"Dev-2","numa":1}],"memory":85899345920}`),
			Heartbeat:        Duration(2 * time.Second),
			Recovery:         RecoveryPolicy{Delay: Duration(90 * time.Second), Reset: ResetNever},
			Allow: EditPolicy{
				Declared: RefuseDeclared,
				Devices:  []string{"/dev/null", "/dev/dri/**"},
				Mounts:   []string{"/usr/lib/lib*.so"},
				Hooks:    []string{},
				Env:      []string{"ACME_DEVICE", "ACME_*"},
				GIDs:     []int{44},
				Process: ProcessPolicy{
					Read: []string{"/opt/acme/**"}, List: []string{"/dev/acme"}, Write: []string{"/var/lib/acme/**"}, Open: []string{"/dev/acme*"},
					Capabilities: []string{"CAP_SYS_NICE"}, SystemCalls: []string{"@raw-io"},
				},
			},
			Sandbox:       Sandbox{Mode: sandbox.Required, User: "61000", Memory: 256 << 20, PIDs: 64, CPUWeight: 50},
			Features:      []string{"model", "driverVersion"},
			FeaturePrefix: "gpu.example.com",
			VendorLabels:  []string{"example.org"},
			Telemetry:     TelemetryPolicy{Sample: SampleNever, Interval: Duration(time.Minute)},
			DRA: DRA{Driver: "gpu.example.com", Evict: true, Metadata: true, Kinds: []OpaqueKind{
				{APIVersion: "gpu.resource.example.com/v1alpha1", Kind: "GpuConfig", Fields: map[string]string{"sharing.strategy": "message"}},
				{APIVersion: "gpu.resource.example.com/v1beta1", Kind: "GpuConfig"},
			}},
		}},
		Resources: []Resource{{
			Name: "example.com/big", API: APIDevicePlugin, Backend: "mock", Class: "gpu",
			Selector: `device.capacity["mock"].memory.compareTo(quantity("40Gi")) >= 0`,
			Replicas: 1, Injection: InjectCDIAnnotations, AnnotationPrefix: "nvidia.cdi.k8s.io", Registration: RegisterWatcher, Reset: ResetDevicesNever,
			Allocation: Allocation{Policy: AllocatePack, Links: LinksWeakest},
			Parameters: map[string]Parameter{
				"program": {Value: "sieve.bin", Annotation: "example.com/program", Env: "PROGRAM"},
				"mode":    {Value: "fast"},
			},
		}, {
			Name:     "example.com/shared",
			API:      APIDevicePlugin,
			Selector: "device.attributes[\"accelmux.io\"].class == \"gpu\" &&\n  device.attributes[\"mock\"].model.startsWith(\"M\")\n",
			Replicas: 4, MaxReplicasPerContainer: &zero, Injection: InjectAuto, AnnotationPrefix: "cdi.k8s.io", Registration: RegisterSocket, Reset: ResetDevicesNever,
			Allocation: Allocation{Policy: AllocateNone, Links: LinksSum},
		}, {
			Name: "example.com/claimed", API: APIDRA,
			Replicas: 1, Injection: InjectAuto, AnnotationPrefix: "cdi.k8s.io", Registration: RegisterSocket, Reset: ResetDevicesNever,
			Allocation: Allocation{Policy: AllocateBestLinks, Links: LinksSum},
		}},
	}
	if diff := cmp.Diff(want, got.Profiles[0]); diff != "" {
		t.Errorf("first profile (-want +got):\n%s", diff)
	}
}

func roundTrip(t *testing.T, c *NodeConfig) {
	t.Helper()
	written, err := yaml.Marshal(c)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	again, err := Parse("again.yaml", written)
	if err != nil {
		t.Fatalf("what was written does not load: %v\n%s", err, written)
	}
	if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after a round trip (-before +after):\n%s", diff)
	}
}

func TestProfile(t *testing.T) {
	c := &NodeConfig{Profiles: []Profile{{Name: "gpu"}, {Name: "default"}}}
	if p, err := c.Profile("default"); err != nil || p.Name != "default" {
		t.Errorf("got %v, %v", p, err)
	}
	const want = `no profile "gpus"; did you mean "gpu"?`
	if _, err := c.Profile("gpus"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestLoadUnreadable verifies that the error of a missing file, or of one that is not regular,
// differs from that of an invalid file.
func TestLoadUnreadable(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "node.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v, want fs.ErrNotExist", err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a directory gives %v", err)
	}
	path := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(path, []byte("profiles: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	var all Errors
	if !errors.As(err, &all) || len(all) == 0 || all[0].File != path {
		t.Errorf("a bad file gives %v, want Errors that name it", err)
	}
	var one Error
	if !errors.As(err, &one) || one.Line == 0 {
		t.Errorf("errors.As finds no Error with a line in %v", err)
	}
}
