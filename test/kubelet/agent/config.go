package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// ProfileName is the profile that the agent is started with.
const ProfileName = "test"

// Config is a node configuration with one profile and one backend, by default
// the mock.
// Fields left empty are left out of the file, so that the defaults apply.
type Config struct {
	Backend Backend
	// Others are backends beside it.
	Others    []Backend
	Resources []Resource
}

// Backend is the backend's part of the configuration.
type Backend struct {
	Name      string            `json:"name"`
	Env       map[string]string `json:"env,omitempty"`
	Settings  any               `json:"settings,omitempty"`
	Heartbeat string            `json:"heartbeat,omitempty"`
	Holdover  string            `json:"holdover,omitempty"`
	Recovery  *Recovery         `json:"recovery,omitempty"`
	Allow     *Allow            `json:"allow,omitempty"`
}

// Allow is what the backend may give to containers.
type Allow struct {
	Mounts []string `json:"mounts,omitempty"`
	Env    []string `json:"env,omitempty"`
}

// Recovery says how faulted devices come back.
type Recovery struct {
	Delay string `json:"delay,omitempty"`
	Reset string `json:"reset,omitempty"`
}

// Resource is a resource of the configuration.
type Resource struct {
	Name                    string `json:"name"`
	API                     string `json:"api,omitempty"`
	Backend                 string `json:"backend,omitempty"`
	Class                   string `json:"class,omitempty"`
	Selector                string `json:"selector,omitempty"`
	Replicas                int    `json:"replicas,omitempty"`
	MaxReplicasPerContainer *int   `json:"maxReplicasPerContainer,omitempty"`
	Injection               string `json:"injection,omitempty"`
	Registration            string `json:"registration,omitempty"`

	Allocation *Allocation          `json:"allocation,omitempty"`
	Parameters map[string]Parameter `json:"parameters,omitempty"`
}

// Allocation says which of the free devices a container gets.
type Allocation struct {
	Policy string `json:"policy,omitempty"`
}

// Parameter says where the value of a parameter comes from.
type Parameter struct {
	Value      string `json:"value,omitempty"`
	Annotation string `json:"annotation,omitempty"`
	Env        string `json:"env,omitempty"`
}

// Write puts a configuration in place by renaming, as editors and kubelet do,
// so that the agent never reads half of one. JSON is YAML.
func (a *Agent) Write(c Config) error {
	if c.Backend.Name == "" {
		c.Backend.Name = "mock"
	}
	return WriteJSON(a.ConfigFile(), map[string]any{
		"apiVersion": "accelmux.io/v1alpha1",
		"kind":       "NodeConfig",
		"profiles": []any{map[string]any{
			"name":      ProfileName,
			"backends":  append([]Backend{c.Backend}, c.Others...),
			"resources": c.Resources,
		}},
	})
}

// WriteJSON replaces a file by renaming a new one over it.
func WriteJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".draft")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // gone already unless something failed
	if _, err := draft.Write(text); err != nil {
		_ = draft.Close()
		return err
	}
	if err := draft.Close(); err != nil {
		return err
	}
	if err := os.Chmod(draft.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}
