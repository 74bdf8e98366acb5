package mps

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings select the GPUs that MPS shares, and limits.
type Settings struct {
	// Replicas is the number of containers that share a GPU, equal to the resource's
	// replicas. 2 to 100; MPS itself accepts 48 processes on a GPU, 60 with newer drivers.
	Replicas int `json:"replicas"`
	// UUIDs are the GPUs that are shared. Default: all that are not in MIG mode.
	UUIDs []string `json:"uuids"`
	// Memory limits what a process may allocate on a GPU, in bytes: "auto" (default) is the
	// GPU's memory divided by the replicas.
	Memory Limit `json:"memory"`
	// Threads limits what a process may use of a GPU's threads, in percent: "auto" (default)
	// is 100 divided by the replicas.
	Threads Limit `json:"threads"`
	// Claims: by dynamic resource allocation claims request shares of memory and threads. Memory and
	// Threads are then what a claim gets that requests none, and the daemon has no limits of its own.
	Claims bool `json:"claims"`
	// Exclusive: only MPS uses the GPUs, by the compute mode EXCLUSIVE_PROCESS while the daemon
	// runs. Default true.
	Exclusive *bool `json:"exclusive"`
	// Dir is a directory in the driver's root for pipes and logs. Its directory "pipe" has the
	// same path in containers. Default /run/accelmux-mps.
	Dir string `json:"dir"`
	// HostDir and HostShmDir are the host's paths of Dir and of the daemon's /dev/shm. Default:
	// below the driver's root on the host.
	HostDir    string `json:"hostDir"`
	HostShmDir string `json:"hostShmDir"`
}

func (s *Settings) exclusive() bool { return s.Exclusive == nil || *s.Exclusive }

// Limit is "auto", "off" or a number. The zero value is "auto".
type Limit struct {
	// Off is true if there is no limit.
	Off bool
	// Value is the limit; 0 for an equal share.
	Value uint64
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Limit) UnmarshalJSON(data []byte) error {
	*l = Limit{}
	switch string(data) {
	case `"auto"`:
		return nil
	case `"off"`:
		l.Off = true
		return nil
	}
	if err := json.Unmarshal(data, &l.Value); err != nil || l.Value == 0 {
		return fmt.Errorf("%s is not auto, off, or a whole number of 1 or more", data)
	}
	return nil
}

const (
	// mebibyte is the unit of MPS's limits of memory.
	mebibyte = 1 << 20

	// maxSocket is the maximum length of a unix socket's path in bytes: sun_path in unix(7)
	// has 108 with its final zero.
	maxSocket = 107

	// DefaultDir is the default of [Settings.Dir].
	DefaultDir = "/run/accelmux-mps"
	shmDir     = "/dev/shm"
)

// Root is the root of the driver's installation: the path in this process's mount
// namespace, and the host's.
type Root struct{ Here, Host string }

// Config has checked settings. It never changes.
type Config struct {
	settings Settings
	root     Root
}

// New checks settings. The error is an [sdk.FieldErrors] whose paths begin with at.
func New(at string, s Settings, root Root) (*Config, error) {
	var errs sdk.FieldErrors
	if s.Claims && s.Memory.Off && s.Threads.Off {
		errs.Add(at+".claims", "claims can request no share if memory and threads are off: set one of them")
	}
	s.Dir = cmp.Or(s.Dir, DefaultDir)
	s.HostDir = cmp.Or(s.HostDir, filepath.Join(root.Host, s.Dir))
	s.HostShmDir = cmp.Or(s.HostShmDir, filepath.Join(root.Host, shmDir))
	c := &Config{settings: s, root: root}
	if over := len(c.socket()) - maxSocket; over > 0 {
		errs.Add(at+".dir", "%q is too long for a socket by %d bytes", s.Dir, over)
	}
	return c, errs.Err()
}

// socket returns the path of the companion's socket in this process.
func (c *Config) socket() string {
	at := place{root: c.root.Here, dir: c.settings.Dir}
	return at.socket()
}

// Replicas is the number of containers that share a GPU.
func (c *Config) Replicas() int { return c.settings.Replicas }

// Chosen returns the UUIDs of the GPUs in the settings; none means all.
func (c *Config) Chosen() []string { return c.settings.UUIDs }

// Shares reports whether a GPU with this UUID is shared, unless in MIG mode.
func (c *Config) Shares(uuid string) bool {
	return len(c.settings.UUIDs) == 0 || slices.Contains(c.settings.UUIDs, uuid)
}

// Edits returns what a container needs for MPS, besides the GPU.
func (c *Config) Edits() *sdk.Edits {
	pipe := filepath.Join(c.settings.Dir, "pipe")
	return &sdk.Edits{
		Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": pipe},
		Mounts: []*sdk.Mount{
			{HostPath: filepath.Join(c.settings.HostDir, "pipe"), ContainerPath: pipe, Writable: true, Options: mountOptions()},
			{HostPath: c.settings.HostShmDir, ContainerPath: shmDir, Writable: true, Options: mountOptions()},
		},
	}
}

func mountOptions() []string { return []string{"nosuid", "nodev", "noexec"} }
