package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/telemetry"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Options say what an agent runs, and where. The agent creates missing directories, except
// KubeletDir, KubeletRootDir and BackendDir.
type Options struct {
	// ConfigPath is the node configuration file; it is watched.
	ConfigPath string
	// Profile is the profile to apply; "" for the one that package profile chooses.
	Profile  string
	NodeName string
	// Cluster is the API server: for the node's labels, unless Profile is set, and for
	// Events. Nil for none. The caller closes it.
	Cluster *kubeapi.Client
	// Pods reads a Pod, for the parameters that its containers give. Default: from Cluster,
	// if there is one.
	Pods func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Directories
	// FindKubelet finds KubeletRootDir, and ends [Agent.Run] with an error when it turns out to be
	// another one.
	FindKubelet bool
	HostPaths   HostPaths
	// MetricsAddress is where metrics are served over TCP, host:port, and ProbeAddress where kubelet's
	// probes are answered; "" for nowhere.
	MetricsAddress, ProbeAddress string
	// NodeCondition is whether the condition of package condition is written; it needs Cluster.
	NodeCondition bool
	// TakeOver is for [Run].
	TakeOver bool
	// Released is called after each attempt to release a device whose holder has ended, with
	// nil or why it failed: then it is tried again. It must not block. Nil: it is
	// not called.
	Released func(backend, device string, err error)
	// Reaper reaps processes that backends leave behind; nil if there is none.
	Reaper *plug.Reaper
	// Launchers are the sockets of launchers in other containers, by the file names of the programs that they start.
	Launchers map[string]string
	// Log is where the agent logs; nil discards.
	Log *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// Directories are those that the agent uses.
type Directories struct {
	// KubeletDir has kubelet's device-plugins, and KubeletRootDir, kubelet's root directory, its
	// plugins_registry, plugins and pod-resources; see package kubeletdir. Default of the latter:
	// KubeletDir.
	KubeletDir, KubeletRootDir string
	CDIDir                     string
	// StateDir has what must survive a restart. It has one active agent. HostStateDir is its path
	// on the host, for programs that a container runtime starts; "" for the same.
	StateDir, HostStateDir string
	// RunDir is this process's own: the admin socket and the backends' sockets.
	RunDir     string
	BackendDir string
	// FeaturesDir gets a feature file for Node Feature Discovery; "" for none.
	FeaturesDir string
}

// HostPaths are the host's trees as this process sees them, as absolute paths: the contract
// with the backends demands it. An empty path stands for the usual one.
type HostPaths struct {
	Sysfs, Devfs, Procfs string
	// netHook is [inventory.Host.NetHook].
	netHook string
}

// check refuses paths that every backend would refuse.
func (h HostPaths) check() error {
	for _, p := range []struct{ flag, path string }{{"--sysfs", h.Sysfs}, {"--devfs", h.Devfs}, {"--procfs", h.Procfs}} {
		if !filepath.IsAbs(p.path) {
			return fmt.Errorf("%s is %q: it must be an absolute path", p.flag, p.path)
		}
	}
	return nil
}

// host gives access to the host's files, and network interfaces.
func (o Options) host() inventory.Host {
	return inventory.Host{
		Host:    hostfs.Host{Devfs: o.HostPaths.Devfs, Sysfs: o.HostPaths.Sysfs, Procfs: o.HostPaths.Procfs},
		NetHook: o.HostPaths.netHook,
		Private: []string{o.KubeletDir, o.KubeletRootDir, o.CDIDir, "/etc/cdi", "/run/cdi", o.HostStateDir, o.RunDir},
	}
}

// wire returns the paths as backends get them.
func (h HostPaths) wire() *backendv1.HostPaths {
	return &backendv1.HostPaths{Sysfs: h.Sysfs, Devfs: h.Devfs, Procfs: h.Procfs}
}

// Timing are the agent's own intervals, and those it hands to its parts.
type Timing struct {
	// SwitchLimit is how long a new configuration may wait for its backends
	// before it is applied without those that are late. Default 30s.
	SwitchLimit time.Duration
	// Stop is how long the backends may take to end with the agent: longer than a process that ignores SIGTERM has, as all
	// of them must be scheduled on a busy node. Default 10s.
	Stop time.Duration
	// ResetBackoff is the pause after the first reset that did not help; it
	// doubles up to 64 times that. Default 10s.
	ResetBackoff time.Duration
	// ReleaseBackoff is the pause after the first release of a device that failed;
	// it doubles up to 64 times that. Default 1s.
	ReleaseBackoff time.Duration
	// UsagePoll is the interval of the pod-resources poll. Default 10s.
	UsagePoll time.Duration
	// HostFiles is how often the host's files that containers get are checked again: a link may lead
	// elsewhere, or a hook program be another one. Default 30s.
	HostFiles time.Duration
	// Claims is how often the claims are compared with the API server. Default 1 min.
	Claims     time.Duration
	CDI        cdi.Timing
	Selection  profile.Timing
	Events     events.Timing
	Features   features.Timing
	Usage      podresources.Timing
	Supervisor supervisor.Timing
	Telemetry  telemetry.Timing
	Plugin     deviceplugin.Timing
	Conflict   conflict.Timing
	Condition  condition.Timing
}

func (o Options) withDefaults() Options {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&o.HostPaths.Sysfs, "/sys")
	fill(&o.HostPaths.Devfs, "/dev")
	fill(&o.HostPaths.Procfs, "/proc")
	fill(&o.HostStateDir, o.StateDir)
	if _, err := os.Stat(filepath.Join(o.BackendDir, netHook)); err == nil {
		o.HostPaths.netHook = filepath.Join(o.HostStateDir, netHook)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.FindKubelet:
		o.KubeletRootDir = o.kubeletRoot().Dir(context.Background())
	case o.KubeletRootDir == "":
		o.KubeletRootDir = o.KubeletDir
	}
	if o.Released == nil {
		o.Released = func(string, string, error) {}
	}
	if o.Pods == nil && o.Cluster != nil {
		o.Pods = o.Cluster.GetPod
	}
	if o.Timing.SwitchLimit == 0 {
		o.Timing.SwitchLimit = 30 * time.Second
	}
	if o.Timing.HostFiles == 0 {
		o.Timing.HostFiles = 30 * time.Second
	}
	if o.Timing.Stop == 0 {
		o.Timing.Stop = 10 * time.Second
	}
	return o
}

// kubeletRoot is what finds KubeletRootDir.
func (o Options) kubeletRoot() kubeletdir.Root {
	return kubeletdir.Root{
		Procfs: o.HostPaths.Procfs, Usual: o.KubeletDir, File: filepath.Join(o.StateDir, "kubelet-root"), Log: o.Log,
	}
}

// byLabels reports whether the node's labels choose the profile: none is named, and there
// is an API server to ask.
func (o Options) byLabels() bool { return o.Profile == "" && o.Cluster != nil }
