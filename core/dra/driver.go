package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/core/dra/claim"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
)

// syncDelay is how long the controller waits before it writes slices again that another client
// changed or deleted. Kubelet deletes a node's slices when it starts; with the default of 30 s new
// pods would wait that long.
const syncDelay = time.Second

// Options of [Start]. All are required, except Log.
type Options struct {
	// Name is the driver's name: a DNS subdomain of at most 63 characters.
	Name     string
	NodeName string
	// BootID is the kernel's identification of this boot.
	BootID string
	// KubeletDir is kubelet's root directory. The path must be the same for kubelet.
	KubeletDir string
	// Sysfs is the host's, for the PCIe roots of devices.
	Sysfs     string
	Client    kubernetes.Interface
	Lifecycle Lifecycle
	Record    *claim.Store
	Log       *slog.Logger
}

// Lifecycle prepares and ends claims; [lifecycle.Lifecycle] implements it.
type Lifecycle interface {
	PrepareClaim(ctx context.Context, r lifecycle.ClaimRequest) ([]lifecycle.Definition, error)
	EndClaim(uid string) error
}

// Driver serves the devices of one backend by dynamic resource allocation. Its methods are safe for
// concurrent use.
type Driver struct {
	opts Options
	log  *slog.Logger
	// context has the log for the Kubernetes libraries; Stop ends it.
	context context.Context //nolint:containedctx // the publication begins with the first Publish
	cancel  context.CancelFunc
	// helper serves kubelet. It is set before Start returns.
	helper *kubeletplugin.Helper

	// publishing is held by Publish and Stop. slices publishes the pool; nil before the first
	// Publish, and after Stop.
	publishing sync.Mutex
	slices     *resourceslice.Controller

	// mu guards what follows.
	mu sync.Mutex
	// backend and devices are those passed to the last Publish; not all devices are in the pool.
	backend *inventory.Backend
	devices map[string]resource.Device // by name
	pool    *pool.Pool
	evict   bool
	// published is closed by the next Publish.
	published chan struct{}
	// problem is the last error since the last Publish; "" if there was none.
	problem string
}

// Start starts a driver: kubelet registers it as soon as it finds its socket. It publishes nothing
// before the first Publish. Stop must follow. The error is for a directory or a socket that cannot be
// made, or for an option that is missing.
func Start(ctx context.Context, opts Options) (*Driver, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{opts: opts, log: opts.Log.With("driver", opts.Name), published: make(chan struct{})}
	data := filepath.Join(opts.KubeletDir, "plugins", opts.Name)
	registry := filepath.Join(opts.KubeletDir, "plugins_registry")
	if err := errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(registry, 0o750)); err != nil {
		return nil, fmt.Errorf("start the DRA driver %s: %w", opts.Name, err)
	}
	d.context, d.cancel = context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(d.log.Handler())))
	helper, err := kubeletplugin.Start(d.context, d,
		kubeletplugin.DriverName(opts.Name), kubeletplugin.NodeName(opts.NodeName), kubeletplugin.KubeClient(opts.Client),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry))
	if err != nil {
		d.cancel()
		return nil, fmt.Errorf("start the DRA driver %s: %w", opts.Name, err)
	}
	d.helper = helper
	return d, nil
}

// Stop stops serving kubelet and the publication. The slices stay; kubelet deletes them 30 s after
// a driver is gone.
func (d *Driver) Stop() {
	d.cancel()
	d.helper.Stop()
	d.publishing.Lock()
	defer d.publishing.Unlock()
	d.slices.Stop()
	d.slices = nil
}

// Publish publishes the devices, in the order in which the scheduler is to try them. The first call
// that succeeds waits until the API server has listed the driver's slices, or Stop is called; the
// later ones do not wait. evict is whether a fault that reaches the holders of a device evicts their
// pods.
func (d *Driver) Publish(backend *inventory.Backend, devices []resource.Device, features pool.Features, evict bool) error {
	p := pool.New(pool.Options{
		Backend: backend, Devices: devices, Features: features, Evict: evict, PCIeRoot: d.pcieRoot,
	})
	resources := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.opts.NodeName: p.Pool}}
	byName := make(map[string]resource.Device, len(devices))
	for _, device := range devices {
		byName[device.Name()] = device
	}
	d.publishing.Lock()
	defer d.publishing.Unlock()
	d.mu.Lock()
	d.backend, d.devices, d.pool, d.evict, d.problem = backend, byName, p, evict, ""
	close(d.published)
	d.published = make(chan struct{})
	d.mu.Unlock()
	if d.slices != nil {
		d.slices.Update(resources)
		return nil
	}
	delay := syncDelay
	slices, err := resourceslice.StartController(d.context, resourceslice.Options{
		DriverName: d.opts.Name, KubeClient: d.opts.Client, Resources: resources, SyncDelay: &delay,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: d.opts.NodeName},
		ErrorHandler: d.HandleError,
	})
	if err != nil {
		return fmt.Errorf("publish the devices of the DRA driver %s: %w", d.opts.Name, err)
	}
	d.slices = slices
	return nil
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

// HandleError implements kubeletplugin.DRAPlugin.
func (d *Driver) HandleError(_ context.Context, err error, message string) {
	d.log.Warn("the protocol or the publication of a DRA driver failed", "message", message, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.problem = fmt.Sprintf("dynamic resource allocation: driver %s: %s: %v", d.opts.Name, message, err)
}

// Problems returns, for the operator, the last error of the driver, and the attributes and capacities
// that are not published.
func (d *Driver) Problems() []inventory.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []inventory.Problem
	if d.problem != "" {
		all = append(all, inventory.Problem{Message: d.problem})
	}
	if d.pool != nil {
		all = append(all, d.pool.Problems...)
	}
	return all
}

// device returns a device that was passed to the last Publish, by its name, and its backend's
// description.
func (d *Driver) device(name string) (device resource.Device, description inventory.Description, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if device, ok = d.devices[name]; ok {
		description = d.backend.Description
	}
	return device, description, ok
}

var _ kubeletplugin.DRAPlugin = (*Driver)(nil)
