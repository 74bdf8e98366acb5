package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadata "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/wake"
)

// Options of [Start]. All are required, except Metadata, Ended, Unused, End, Log and Answered.
type Options struct {
	// Name is the driver's name: a DNS subdomain of at most 63 characters.
	Name     string
	NodeName string
	// BootID is the kernel's identification of this boot.
	BootID string
	// KubeletRootDir is kubelet's root directory. The path must be the same for kubelet.
	KubeletRootDir string
	// CDIDir is where the container runtime finds CDI specs.
	CDIDir string
	// Metadata: containers get files with the attributes of their devices.
	Metadata  bool
	Client    kubernetes.Interface
	Lifecycle Lifecycle
	Record    *holders.Claims
	// Ended returns why a claim that has a device has ended for the API server, though kubelet has not
	// unprepared it; "" if it has not ended, or if that is not known.
	Ended func(ctx context.Context, i holders.ClaimID) string
	// Unused returns an error if a container with a claim may run, by what kubelet lists.
	Unused func(ctx context.Context, c *holders.ClaimRecord) error
	// End ends a claim that was prepared before its pod was bound, if it has ended for the API server.
	End func(ctx context.Context, i holders.ClaimID) error
	// Answered is called after each prepare and unprepare of a claim, with nil or why it failed.
	// It must not block.
	Answered func(call Call, driver string, took time.Duration, err error)
	Log      *slog.Logger
}

// Call is a call of kubelet's for one claim.
type Call string

// The calls.
const (
	CallPrepare   Call = "prepare"
	CallUnprepare Call = "unprepare"
)

// Lifecycle prepares, restores and ends claims; [lifecycle.Lifecycle] implements it.
type Lifecycle interface {
	PrepareClaim(ctx context.Context, r lifecycle.ClaimRequest) error
	EndClaim(i holders.ClaimID) error
	Made() map[inventory.Key]string
	EndUnknownClaim(uid string, device inventory.Key) error
	RestoreDefinitions(c *holders.ClaimRecord) error
}

// Driver serves the devices of one backend by dynamic resource allocation. Its methods are safe for
// concurrent use.
type Driver struct {
	opts Options
	log  *slog.Logger
	// helper serves kubelet. It is set before Start returns.
	helper *kubeletplugin.Helper
	cancel context.CancelFunc
	// publisher writes the slices; its goroutine ends with done.
	publisher *publisher
	done      chan struct{}
	// slowAnswer is the constant, but in tests.
	slowAnswer time.Duration

	// mu guards what follows.
	mu sync.Mutex
	// publication is what was passed to the last Publish, and devices are its devices by name, also
	// those of claims; not all of them are in the pool.
	publication Publication
	devices     map[string]resource.Device
	// published is closed by the next Publish.
	published chan struct{}
	// registered: kubelet has accepted the driver; refusal is why it did not.
	registered bool
	refusal    string
	// failure is why kubelet is no longer served.
	failure error
	// preparing are the preparations that take long, until kubelet has the result.
	preparing map[types.UID]*preparation
	// running ends with the driver, and background has the preparations for which kubelet does not wait.
	running    context.Context //nolint:containedctx // of what outlives a call of kubelet's
	background sync.WaitGroup
	// sockets are those on which kubelet is served and finds the driver.
	sockets []*socket

	// calls is held, for reading, by each call of kubelet's for claims. stopped: none begins any
	// more.
	calls   sync.RWMutex
	stopped bool
}

// Start starts a driver: kubelet registers it as soon as it finds its socket. It publishes nothing
// before the first Publish. Stop must follow. The error is for a directory or a socket that cannot be
// made, for another program that serves a driver of that name, or for an option that is missing.
func Start(ctx context.Context, opts Options) (*Driver, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Answered == nil {
		opts.Answered = func(Call, string, time.Duration, error) {}
	}
	d := &Driver{opts: opts, log: opts.Log.With("driver", opts.Name), published: make(chan struct{}), done: make(chan struct{}), preparing: map[types.UID]*preparation{}, slowAnswer: slowAnswer}
	if err := d.start(ctx); err != nil {
		return nil, fmt.Errorf("start the DRA driver %s: %w", opts.Name, err)
	}
	return d, nil
}

// start makes the sockets, serves kubelet on them, and starts the publisher.
func (d *Driver) start(ctx context.Context) (err error) {
	data := d.directory()
	registry := filepath.Join(d.opts.KubeletRootDir, "plugins_registry")
	if err := errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(registry, 0o750)); err != nil {
		return fmt.Errorf("%w: the agent needs kubelet's directories plugins and plugins_registry, to write to: the chart mounts them with a resource of api: dra, or with dra.enabled: true", err)
	}
	// kubeletplugin would remove another driver's sockets, and would leave one behind if it cannot
	// make the other.
	for _, path := range []string{filepath.Join(data, "dra.sock"), filepath.Join(registry, d.opts.Name+"-reg.sock")} {
		made, err := listen(ctx, path)
		if err != nil {
			return errors.Join(err, d.closeSockets())
		}
		d.sockets = append(d.sockets, made)
	}
	given := func(i int) func(context.Context, string) (net.Listener, error) {
		return func(context.Context, string) (net.Listener, error) { return d.sockets[i], nil }
	}
	ctx, d.cancel = context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(d.log.Handler())))
	d.running = ctx
	d.publisher = newPublisher(d)
	d.helper, err = kubeletplugin.Start(ctx, d,
		kubeletplugin.EnableDeviceMetadata(d.opts.Metadata, []schema.GroupVersion{metadata.SchemeGroupVersion}), kubeletplugin.CDIDirectory(d.opts.CDIDir),
		kubeletplugin.DriverName(d.opts.Name), kubeletplugin.NodeName(d.opts.NodeName), kubeletplugin.KubeClient(d.opts.Client),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.PluginListener(given(0)), kubeletplugin.RegistrarListener(given(1)), kubeletplugin.GRPCInterceptor(d.intercept))
	if err != nil {
		d.cancel()
		return errors.Join(err, d.closeSockets())
	}
	go func() {
		defer close(d.done)
		d.publisher.run(ctx)
	}()
	return nil
}

// directory is the driver's own below kubelet's.
func (d *Driver) directory() string {
	return filepath.Join(d.opts.KubeletRootDir, "plugins", d.opts.Name)
}

func (d *Driver) closeSockets() error {
	var errs []error
	for _, s := range d.sockets {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Stop stops serving kubelet and the publication. It returns when no call of kubelet's is in
// progress any more. The slices stay; kubelet deletes them 30 s after a driver is gone.
func (d *Driver) Stop() {
	d.cancel()
	d.helper.Stop()
	<-d.done
	d.calls.Lock() // the gRPC server does not wait for calls
	d.stopped = true
	d.calls.Unlock()
	d.background.Wait()
}

// Publication is what a driver publishes.
type Publication struct {
	// Backend has the description.
	Backend *inventory.Backend
	// Devices are in the order in which the scheduler is to try them.
	Devices []resource.Device
	// Claimed are the devices of claims in the record. Those that are not in Devices, because their
	// resource has moved to the device plugin API, are not published, but can be prepared again.
	Claimed []resource.Device
	// Reported: the backend has reported its devices.
	Reported bool
	// Complete: the devices may be published. Otherwise they are only for claims.
	Complete bool
	// LinkGroups are the link groups of the devices, by their IDs.
	LinkGroups map[string]pool.LinkGroups
	Evict      pool.Eviction
	// Binding: pods can be bound when their devices are prepared, as claims are watched.
	Binding bool
	// Kinds are the kinds of opaque parameters that are accepted beside our own.
	Kinds []config.OpaqueKind
}

// Publish publishes the devices. It does not wait for the API server; see Status. A device is left
// out while a claim has another one of its name: that one was the driver's before.
func (d *Driver) Publish(p Publication) {
	byName := make(map[string]resource.Device, len(p.Devices))
	for _, device := range slices.Concat(p.Devices, p.Claimed) {
		byName[device.Name()] = device
	}
	p.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(device resource.Device) bool { return byName[device.Name()].Key != device.Key })
	d.mu.Lock()
	d.publication, d.devices = p, byName
	close(d.published)
	d.published = make(chan struct{})
	d.mu.Unlock()
	wake.Send(d.publisher.wake)
}

// newest returns what was passed to the last Publish; a Publication without a backend before that.
func (d *Driver) newest() Publication {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.publication
}

// HandleError implements kubeletplugin.DRAPlugin: a server for kubelet has failed, or kubelet got no
// report of health for a while.
func (d *Driver) HandleError(_ context.Context, err error, message string) {
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.log.Warn("a DRA driver is late", "message", message, "error", err)
		return
	}
	d.log.Error("the server for kubelet failed", "message", message, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = fmt.Errorf("%s: %w", message, err)
}

// Failed returns why the driver no longer serves kubelet, and must be started again; nil if it
// serves.
func (d *Driver) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return d.failure
	}
	for _, socket := range d.sockets {
		if !socket.isInPlace() {
			d.failure = fmt.Errorf("its socket %s was removed or replaced", socket.path)
		}
	}
	return d.failure
}

// intercept sees the calls of kubelet: the result of the registration, and the calls for claims, for
// which Stop waits.
func (d *Driver) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	d.calls.RLock()
	defer d.calls.RUnlock()
	if d.stopped {
		return nil, status.Error(codes.Unavailable, "the driver has ended")
	}
	if status, ok := request.(*registerapi.RegistrationStatus); ok {
		d.mu.Lock()
		d.registered, d.refusal = status.GetPluginRegistered(), status.GetError()
		d.mu.Unlock()
	}
	return handle(ctx, request)
}

// device returns a device of the last Publish, by its name, and what was passed to it.
func (d *Driver) device(name string) (device resource.Device, of Publication, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	device, ok = d.devices[name]
	return device, d.publication, ok
}

var _ kubeletplugin.DRAPlugin = (*Driver)(nil)
