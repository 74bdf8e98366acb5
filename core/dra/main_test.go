package dra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drapbv1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	driverName = "mock.accelmux.io"
	node       = "node-1"
)

var mock = &inventory.Backend{Name: "mock", Description: inventory.Description{
	Name: "mock", Prepare: true, Parameters: []inventory.Parameter{{Name: "mode", IsText: true}, {Name: "level"}},
	ParametersSchema: `{"type":"object","properties":{"mode":{"type":"string","enum":["fast","slow"]},"level":{"type":"integer"}}}`,
}}

// fakeLifecycle records what is prepared and ended.
type fakeLifecycle struct {
	mu       sync.Mutex
	prepared []lifecycle.ClaimRequest
	ended    []string
	// record is where claims end.
	record *holders.Claims
	// undefined are the devices to which claims that ended had admin access.
	undefined []inventory.Key
	defined   []*holders.ClaimRecord
	made      map[inventory.Key]string
	err       error
	// held is the error if the devices cannot be taken.
	held error
	// backend, if set, is what the backend does in PrepareClaim.
	backend func(ctx context.Context) error
	endErr  error
	// defineErr is the error of RestoreDefinitions.
	defineErr error
}

func (f *fakeLifecycle) PrepareClaim(ctx context.Context, r lifecycle.ClaimRequest) error {
	f.mu.Lock()
	err, held, backend := f.err, f.held, f.backend
	f.mu.Unlock()
	if held != nil {
		return lifecycle.TemporaryError{Err: held}
	}
	f.record.Expect(r.Record)
	if err == nil && backend != nil {
		err = backend(ctx)
	}
	if err == nil {
		f.mu.Lock()
		f.prepared = append(f.prepared, r)
		f.mu.Unlock()
		for i := range r.Record.Devices {
			r.Record.Devices[i].Edits = json.RawMessage(`{"env":["A=b"]}`)
		}
		r.Record.Prepared = true
		if failed := f.record.Put(r.Record); failed != nil {
			err = lifecycle.TemporaryError{Err: failed}
		}
	}
	if err != nil {
		err = errors.Join(err, f.EndClaim(r.Record.ID()))
	}
	if _, again := errors.AsType[lifecycle.TemporaryError](err); again || errors.Is(err, supervisor.ErrNotRunning) {
		return lifecycle.TemporaryError{Err: err}
	}
	return err
}

func (f *fakeLifecycle) RestoreDefinitions(c *holders.ClaimRecord) error {
	if f.defineErr == nil {
		f.defined = append(f.defined, c)
	}
	return f.defineErr
}

func (f *fakeLifecycle) EndClaim(i holders.ClaimID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, string(i.UID))
	if f.endErr != nil {
		return f.endErr
	}
	admin, err := f.record.End(i, func(inventory.Key) bool { return true })
	f.undefined = append(f.undefined, admin...)
	return err
}

func (f *fakeLifecycle) Made() map[inventory.Key]string { return f.made }

func (f *fakeLifecycle) EndUnknownClaim(uid string, device inventory.Key) error {
	f.ended = append(f.ended, uid+" "+device.ID)
	return nil
}

// rig is a driver with an API server in the process, and kubelet's side of its socket.
type rig struct {
	*Driver
	lifecycle *fakeLifecycle
	cluster   *apiServer
	dir       string
	boot      string
	metadata  bool
	kubelet   *grpc.ClientConn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{lifecycle: &fakeLifecycle{}, cluster: newAPIServer(), dir: t.TempDir(), boot: "boot-1"}
	r.start(t)
	return r
}

// start starts the driver, as after a restart of the agent.
func (r *rig) start(t *testing.T) {
	t.Helper()
	var err error
	r.lifecycle.record = record(t, r.dir)
	if r.Driver, err = Start(t.Context(), Options{
		Name: driverName, NodeName: node, BootID: r.boot, KubeletRootDir: r.dir, CDIDir: filepath.Join(r.dir, "cdi"), Metadata: r.metadata,
		Client: r.cluster, Lifecycle: r.lifecycle, Record: r.lifecycle.record,
	}); err != nil {
		t.Fatal(err)
	}
	r.slowAnswer = time.Millisecond
	r.connect(t)
	t.Cleanup(func() { r.stop(t) })
}

// connect connects kubelet.
func (r *rig) connect(t *testing.T) {
	t.Helper()
	var err error
	if r.kubelet, err = grpc.NewClient("unix://"+filepath.Join(r.dir, "plugins", driverName, "dra.sock"), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) stop(t *testing.T) {
	if r.Driver == nil {
		return
	}
	r.Stop()
	if err := r.kubelet.Close(); err != nil {
		t.Error(err)
	}
	r.Driver = nil
}

// restart is a restart of the agent.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	r.stop(t)
	r.start(t)
	r.publish(t, device("GPU-0"), device("GPU-1"))
}

func device(id string) resource.Device {
	return resource.Device{Device: &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}, Verdict: health.Verdict{Healthy: true}}
}

func unhealthy(id string) resource.Device {
	d := device(id)
	d.Verdict = health.Verdict{Faults: []health.Fault{{Code: "hot", Message: "it is too hot", Since: time.Now()}}}
	return d
}

func (r *rig) publish(t *testing.T, devices ...resource.Device) {
	t.Helper()
	r.Publish(Publication{Backend: mock, Reported: true, Complete: true, Devices: devices})
}

// allocate creates a claim with these results, reserved for a pod.
func (r *rig) allocate(t *testing.T, name string, change func(*resourceapi.ResourceClaim), results ...resourceapi.DeviceRequestAllocationResult) *drapbv1.Claim {
	t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Status: resourceapi.ResourceClaimStatus{
		Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}},
	}}
	if change != nil {
		change(c)
	}
	if _, err := r.cluster.ResourceV1().ResourceClaims("ns").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &drapbv1.Claim{Namespace: "ns", Name: name, Uid: "uid-" + name}
}

// change changes a claim in the API server.
func (r *rig) change(t *testing.T, name string, change func(*resourceapi.ResourceClaim)) {
	t.Helper()
	claims := r.cluster.ResourceV1().ResourceClaims("ns")
	c, err := claims.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		change(c)
		_, err = claims.Update(t.Context(), c, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func result(request, device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driverName, Pool: node, Device: device}
}

// prepare calls NodePrepareResources for one claim.
func (r *rig) prepare(t *testing.T, c *drapbv1.Claim) (devices []string, problem string) {
	t.Helper()
	response, err := drapbv1.NewDRAPluginClient(r.kubelet).NodePrepareResources(t.Context(), &drapbv1.NodePrepareResourcesRequest{Claims: []*drapbv1.Claim{c}})
	if err != nil {
		return nil, err.Error()
	}
	one := response.GetClaims()[c.GetUid()]
	for _, d := range one.GetDevices() {
		devices = append(devices, fmt.Sprintf("%v %s %s %v %s", d.GetRequestNames(), d.GetPoolName(), d.GetDeviceName(), d.GetCdiDeviceIds(), d.GetShareId()))
	}
	return devices, one.GetError()
}

func (r *rig) unprepare(t *testing.T, c *drapbv1.Claim) {
	t.Helper()
	response, err := drapbv1.NewDRAPluginClient(r.kubelet).NodeUnprepareResources(t.Context(), &drapbv1.NodeUnprepareResourcesRequest{Claims: []*drapbv1.Claim{c}})
	if err != nil || response.GetClaims()[c.GetUid()] == nil || response.GetClaims()[c.GetUid()].GetError() != "" {
		t.Fatalf("unprepare: %v, %v", response, err)
	}
}
