// Package manifest reads what a backend's program is, takes and may do: a YAML file beside the program, which root owns
// as it owns the program. With the settings of the node configuration it gives the rights of the process. It starts
// nothing, expands no pattern on the node, and does not check who owns a file.
//
// Data flows from types to decode, check, reference and rights.
package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// The first two fields of a manifest.
const (
	APIVersion = "backend.accelmux.io/v1"
	Kind       = "Backend"
)

// Manifest is a checked manifest with its schemas and presets.
type Manifest struct {
	// Description has the attributes that do not depend on the settings; see [Manifest.Attributes].
	Description inventory.Description
	Protocols   []int
	Hardware    []Hardware
	InUse       InUse
	PausedWhile []Pause
	Process     []ProcessGroup
	Containers  []ContainerGroup
	// Presets are kinds of devices in JSON, by name.
	Presets map[string]config.Settings
	// Sum is "sha256:" and the checksum of the manifest with its schema and preset files.
	Sum string

	attributes []Attribute
	classes    []Class
	labels     []string
	look       Look
	schema     any // of the settings, as encoding/json has it; nil if there is none
}

// document is a manifest as it is written.
type document struct {
	APIVersion  string           `yaml:"apiVersion"`
	Kind        string           `yaml:"kind"`
	Name        string           `yaml:"name"`
	Vendor      string           `yaml:"vendor"`
	Version     string           `yaml:"version"`
	Protocols   []int            `yaml:"protocols"`
	Classes     []Class          `yaml:"classes"`
	Abilities   []string         `yaml:"abilities"`
	Settings    config.Settings  `yaml:"settings"`
	Parameters  config.Settings  `yaml:"parameters"`
	Presets     config.Settings  `yaml:"presets"`
	Attributes  []Attribute      `yaml:"attributes"`
	Labels      []string         `yaml:"labels"`
	Hardware    []Hardware       `yaml:"hardware"`
	InUse       string           `yaml:"inUse"`
	Look        Look             `yaml:"look"`
	PausedWhile []Pause          `yaml:"pausedWhile"`
	Process     []ProcessGroup   `yaml:"process"`
	Containers  []ContainerGroup `yaml:"containers"`
}

// InUse is who looks, before a device is reset, whether a process has it open.
type InUse string

// Who looks: the core, or the program, whose driver knows. None is for backends without nodes and without Reset.
const (
	InUseCore    InUse = "core"
	InUseBackend InUse = "backend"
	InUseNone    InUse = "none"
)

// Look has the conditions under which the core looks in addition; see [inventory.Look].
type Look struct {
	Reset  When `yaml:"reset"`
	Report When `yaml:"report"`
	Fail   When `yaml:"fail"`
}

// Hardware are PCI functions that a backend serves. Vendor and Device have 4 hexadecimal digits, Class 2, 4 or 6.
type Hardware struct {
	Vendor string `yaml:"vendor"`
	Device string `yaml:"device"`
	Class  string `yaml:"class"`
	Name   string `yaml:"name"`
}

// Pause is a node label under which the program must not run. The label may end in "*", and the values are patterns.
type Pause struct {
	Label  string   `yaml:"label"`
	Values []string `yaml:"values"`
}

// Class is a class of devices: those of which there are some only with certain settings, or only devices that are made for
// claims, have conditions.
type Class struct {
	Name      string `yaml:"name"`
	When      When   `yaml:"when"`
	Potential When   `yaml:"potential"`
	// PreparedFor is the setting with the number of containers for which the devices are set up.
	PreparedFor *Setting `yaml:"preparedFor"`
}

// fields are those of a class that is a mapping.
type fields Class

// Part implements [config.Union]: a name, or a mapping.
func (c *Class) Part(kind yaml.Kind) any {
	if kind == yaml.ScalarNode {
		return &c.Name
	}
	return (*fields)(c)
}

// Setting is a setting that counts under conditions.
type Setting struct {
	Setting string `yaml:"setting"`
	When    When   `yaml:"when"`
}

// Attribute declares an attribute or a capacity, or, with Keys, those that a map in the settings names.
type Attribute struct {
	Name  string `yaml:"name"`
	Keys  string `yaml:"keys"`
	Kind  string `yaml:"kind"`
	About string `yaml:"about"`
	When  When   `yaml:"when"`
	// Values are all that a text can be, and Classes those of the devices that have the attribute; none for any.
	Values  []Entry `yaml:"values"`
	Classes []Class `yaml:"classes"`
}

// ProcessGroup is what the process gets for one reason.
type ProcessGroup struct {
	Why          string  `yaml:"why"`
	When         When    `yaml:"when"`
	List         []Entry `yaml:"list"`
	Read         []Entry `yaml:"read"`
	Write        []Entry `yaml:"write"`
	Open         []Entry `yaml:"open"`
	Capabilities []Entry `yaml:"capabilities"`
	SystemCalls  []Entry `yaml:"systemCalls"`
}

// ContainerGroup is what edits may contain for one reason.
type ContainerGroup struct {
	Why            string  `yaml:"why"`
	When           When    `yaml:"when"`
	Devices        []Entry `yaml:"devices"`
	Mounts         []Entry `yaml:"mounts"`
	ReadOnlyMounts []Entry `yaml:"readOnlyMounts"`
	Hooks          []Entry `yaml:"hooks"`
	Env            []Entry `yaml:"env"`
	GIDs           []int   `yaml:"gids"`
	NetDevices     []Entry `yaml:"netDevices"`
}

// When are conditions of which one must hold; none always hold.
type When []Condition

// Condition holds if the setting is there, or has one of the values Is, or none of Not. The values are patterns.
type Condition struct {
	Setting string   `yaml:"setting"`
	Is      []string `yaml:"is"`
	Not     []string `yaml:"not"`
}

// Part implements [config.Union]: one condition, or a list.
func (w *When) Part(kind yaml.Kind) any {
	if kind == yaml.SequenceNode {
		return (*[]Condition)(w)
	}
	*w = make(When, 1)
	return &(*w)[0]
}

// Entry is a text, or a reference to the settings.
type Entry struct {
	Text      string
	Reference *Reference
}

// Part implements [config.Union].
func (e *Entry) Part(kind yaml.Kind) any {
	if kind == yaml.ScalarNode {
		return &e.Text
	}
	e.Reference = &Reference{}
	return e.Reference
}

// Reference stands for the values of a setting.
type Reference struct {
	// Setting is a path in the settings: names joined by ".", with "[*]" after a list or a map.
	Setting string `yaml:"setting"`
	// Default is used if the settings and their schema have no value; "" is no entry.
	Default *string `yaml:"default"`
	// Dir stands for the directory of the file, and Below is a path below the value.
	Dir   bool   `yaml:"dir"`
	Below *Entry `yaml:"below"`
	// Keys stands for the names of a map.
	Keys bool `yaml:"keys"`
	// Glob makes a pattern of a text with {expressions}.
	Glob Glob `yaml:"glob"`
}

// Glob says that each {expression} in a text is a "*"; Words are expressions that stand for the values at a path in the
// same element of the list.
type Glob struct {
	On    bool
	Words map[string]string
}

// Part implements [config.Union].
func (g *Glob) Part(kind yaml.Kind) any {
	if kind == yaml.MappingNode {
		g.On = true
		return &g.Words
	}
	return &g.On
}

// FieldError is what is wrong with one setting.
type FieldError struct{ Field, Message string }

// FieldErrors are all that is wrong with settings.
type FieldErrors []FieldError

// Error returns one line for each error.
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = strings.TrimPrefix(f.Field+": "+f.Message, ": ")
	}
	return strings.Join(lines, "\n")
}
