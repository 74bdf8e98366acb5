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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	metadata "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/claim"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/wake"
)

// Options of [Start]. All are required, except Metadata, Log and Answered.
type Options struct {
	// Name is the driver's name: a DNS subdomain of at most 63 characters.
	Name     string
	NodeName string
	// BootID is the kernel's identification of this boot.
	BootID string
	// KubeletDir is kubelet's root directory. The path must be the same for kubelet.
	KubeletDir string
	// CDIDir is where the container runtime finds CDI specs.
	CDIDir string
	// Metadata: containers get files with the attributes of their devices.
	Metadata bool
	// Sysfs is the host's, for the PCIe roots of devices.
	Sysfs     string
	Client    kubernetes.Interface
	Lifecycle Lifecycle
	Record    *claim.Store
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
	PrepareClaim(ctx context.Context, r lifecycle.ClaimRequest) ([]lifecycle.Definition, error)
	EndClaim(driver, uid string) error
	RestoreClaim(claim holders.Claim, devices []lifecycle.RestoredDevice)
	RestoreUnreadClaim(driver, uid string)
	RestoreDefinitions(devices []lifecycle.RestoredDevice) error
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
	// sockets are kubelet's, by path, as Start made them.
	sockets map[string]os.FileInfo
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
	d := &Driver{opts: opts, log: opts.Log.With("driver", opts.Name), published: make(chan struct{}), done: make(chan struct{})}
	data := filepath.Join(opts.KubeletDir, "plugins", opts.Name)
	registry := filepath.Join(opts.KubeletDir, "plugins_registry")
	// kubeletplugin goes on listening on the first socket if it cannot make the second one.
	err := errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(registry, 0o750), fits(filepath.Join(registry, opts.Name+"-reg.sock")))
	if err == nil {
		err = unused(ctx, filepath.Join(data, "dra.sock"))
	}
	if err != nil {
		return nil, fmt.Errorf("start the DRA driver %s: %w", opts.Name, err)
	}
	ctx, d.cancel = context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(d.log.Handler())))
	d.publisher = newPublisher(d)
	d.helper, err = kubeletplugin.Start(ctx, d,
		kubeletplugin.EnableDeviceMetadata(opts.Metadata, []schema.GroupVersion{metadata.SchemeGroupVersion}), kubeletplugin.CDIDirectory(opts.CDIDir),
		kubeletplugin.DriverName(opts.Name), kubeletplugin.NodeName(opts.NodeName), kubeletplugin.KubeClient(opts.Client),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.GRPCInterceptor(d.intercept))
	if err != nil {
		d.cancel()
		return nil, fmt.Errorf("start the DRA driver %s: %w", opts.Name, err)
	}
	d.sockets = map[string]os.FileInfo{}
	for _, path := range []string{filepath.Join(data, "dra.sock"), filepath.Join(registry, opts.Name+"-reg.sock")} {
		d.sockets[path], _ = os.Stat(path) // a socket that is gone already is noticed by Failed
	}
	go func() {
		defer close(d.done)
		d.publisher.run(ctx)
	}()
	return d, nil
}

// maxSocketPath is the kernel's bound on the path of a unix socket (unix(7)), without the zero byte.
const maxSocketPath = 107

func fits(socket string) error {
	if len(socket) > maxSocketPath {
		return fmt.Errorf("the path of the socket %s has %d characters, at most %d are possible: give the driver a shorter name (dra.driver of the backend)", socket, len(socket), maxSocketPath)
	}
	return nil
}

// unused returns an error if a program accepts connections on the socket: kubelet would have one
// of two drivers of one name, and which one is a matter of chance.
func unused(ctx context.Context, socket string) error {
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil //nolint:nilerr // there is no such socket, or nobody listens
	}
	_ = connection.Close()
	return fmt.Errorf("another program serves a driver of that name on this node, at %s: remove it, or give this one another name (dra.driver of the backend)", socket)
}

// Stop stops serving kubelet and the publication. The slices stay; kubelet deletes them 30 s after
// a driver is gone.
func (d *Driver) Stop() {
	d.cancel()
	d.helper.Stop()
	<-d.done
}

// Withdraw deletes the driver's slices, and stops the driver.
func (d *Driver) Withdraw(ctx context.Context) error {
	d.Stop()
	return d.publisher.withdraw(ctx)
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
	// Resource returns the name of the resource that selects a device.
	Resource func(inventory.Key) string
	// Evict is whether a fault that reaches the holders of a device evicts their pods.
	Evict bool
	// Metadata is what the option Metadata is to be. A Frontend restarts the driver for it.
	Metadata bool
	// Kinds are the kinds of opaque parameters that are accepted beside our own.
	Kinds []config.OpaqueKind
}

// Publish publishes the devices. It does not wait for the API server; see Status.
func (d *Driver) Publish(p Publication) {
	byName := make(map[string]resource.Device, len(p.Devices))
	for _, device := range slices.Concat(p.Claimed, p.Devices) {
		byName[device.Name()] = device
	}
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

// pcieRoot returns the attribute resource.kubernetes.io/pcieRoot of a PCI address; "" if sysfs does
// not have it.
func (d *Driver) pcieRoot(busID string) string {
	attribute, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(busID, deviceattribute.WithFSFromRoot(d.opts.Sysfs))
	if err != nil {
		return ""
	}
	return *attribute.Value.StringValue
}

// HandleError implements kubeletplugin.DRAPlugin: a server for kubelet has failed.
func (d *Driver) HandleError(_ context.Context, err error, message string) {
	d.log.Error("kubelet is no longer served by this DRA driver", "message", message, "error", err)
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
	for path, made := range d.sockets {
		if now, err := os.Stat(path); err != nil || !os.SameFile(made, now) {
			d.failure = fmt.Errorf("its socket %s was removed or replaced", path)
		}
	}
	return d.failure
}

// intercept sees the calls of kubelet, for the result of the registration.
func (d *Driver) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
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
