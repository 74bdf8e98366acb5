package mps

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings say which GPUs are shared by MPS and how.
type Settings struct {
	// Replicas is how many containers share a GPU: what the node's configuration
	// says in resource.replicas. 2 to 100; MPS itself takes 48 processes a GPU, 60
	// with newer drivers.
	Replicas int `json:"replicas"`
	// UUIDs are the GPUs that are shared. Default: all that are not in MIG mode.
	UUIDs []string `json:"uuids"`
	// Memory is how much a process may allocate on a GPU: "auto" (default) is the
	// GPU's memory divided by the replicas.
	Memory Limit `json:"memory"`
	// Threads is how much of a GPU's threads a process may use, in percent: "auto"
	// (default) is 100 divided by the replicas.
	Threads Limit `json:"threads"`
	// Program is nvidia-cuda-mps-control in the driver's root. Default: it is looked
	// for where programs usually are.
	Program string `json:"program"`
	// PipeDir and LogDir are directories in the driver's root. Containers see
	// PipeDir under the same path. They are made if they are not there. Default
	// /run/accelmux-mps/pipe and /run/accelmux-mps/log.
	PipeDir string `json:"pipeDir"`
	LogDir  string `json:"logDir"`
	// HostPipeDir and HostShmDir are where the host has PipeDir and the /dev/shm of
	// the driver's root. Default: below the driver's root on the host.
	HostPipeDir string `json:"hostPipeDir"`
	HostShmDir  string `json:"hostShmDir"`
}

// Limit is "auto", "off" or a number. The zero value is "auto".
type Limit struct {
	// Off says that there is no limit.
	Off bool
	// Value is the limit; 0 for a share of the whole.
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
		return fmt.Errorf("%s is none: auto, off, or a whole number of 1 or more", data)
	}
	return nil
}

const (
	maxReplicas = 100
	// mebibyte is the unit in which MPS takes limits of memory.
	mebibyte = 1 << 20

	defaultPipeDir = "/run/accelmux-mps/pipe"
	defaultLogDir  = "/run/accelmux-mps/log"
	shmDir         = "/dev/shm"
)

// Root is where the driver is installed: as this process sees it, and as the host
// does.
type Root struct{ Here, Host string }

// Config is what settings mean. It never changes.
type Config struct {
	settings Settings
	root     Root
}

// New checks settings. The error is an [sdk.FieldErrors] whose paths begin with at.
func New(at string, s Settings, root Root) (*Config, error) {
	var errs sdk.FieldErrors
	if s.Replicas < 2 || s.Replicas > maxReplicas {
		errs.Add(at+".replicas", "%d must be between 2 and %d, the same as replicas of the resource", s.Replicas, maxReplicas)
	}
	for i, uuid := range s.UUIDs {
		field := fmt.Sprintf("%s.uuids[%d]", at, i)
		if !strings.HasPrefix(uuid, "GPU-") || strings.ContainsAny(uuid, ", \t\n") {
			errs.Add(field, "%q is no UUID of a GPU, such as nvidia-smi -L shows: GPU-… (MIG devices are not shared)", uuid)
		}
		if slices.Contains(s.UUIDs[:i], uuid) {
			errs.Add(field, "%s is given twice; keep one", uuid)
		}
	}
	if v := s.Memory.Value; v > 0 && v < mebibyte {
		errs.Add(at+".memory", "%d bytes are too few: at least %d", v, mebibyte)
	}
	if v := s.Threads.Value; v > 100 {
		errs.Add(at+".threads", "%d percent are too many: at most 100", v)
	}
	path := func(name string, value *string, usual string) {
		if *value == "" {
			*value = usual
		} else if !filepath.IsAbs(*value) || filepath.Clean(*value) != *value {
			errs.Add(at+"."+name, "%q must be an absolute path without . or ..", *value)
		}
	}
	path("program", &s.Program, "")
	path("pipeDir", &s.PipeDir, defaultPipeDir)
	path("logDir", &s.LogDir, defaultLogDir)
	path("hostPipeDir", &s.HostPipeDir, filepath.Join(root.Host, s.PipeDir))
	path("hostShmDir", &s.HostShmDir, filepath.Join(root.Host, shmDir))
	return &Config{settings: s, root: root}, errs.Err()
}

// Replicas is how many containers share a GPU.
func (c *Config) Replicas() int { return c.settings.Replicas }

// Chosen are the UUIDs of the GPUs that the settings name; none means all.
func (c *Config) Chosen() []string { return c.settings.UUIDs }

// Shares reports whether the GPU with this UUID is shared, if it is a whole one.
func (c *Config) Shares(uuid string) bool {
	return len(c.settings.UUIDs) == 0 || slices.Contains(c.settings.UUIDs, uuid)
}

// Edits are what a container needs to compute by MPS, besides the GPU.
func (c *Config) Edits() *sdk.Edits {
	return &sdk.Edits{
		Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": c.settings.PipeDir},
		Mounts: []*sdk.Mount{
			{HostPath: c.settings.HostPipeDir, ContainerPath: c.settings.PipeDir, Writable: true, Options: mountOptions()},
			{HostPath: c.settings.HostShmDir, ContainerPath: shmDir, Writable: true, Options: mountOptions()},
		},
	}
}

func mountOptions() []string { return []string{"nosuid", "nodev", "noexec"} }
