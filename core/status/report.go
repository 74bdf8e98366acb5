package status

import (
	"time"

	"github.com/accelmux/accelmux/core/profile"
)

// Version is the agent's version, set by the linker.
var Version = "dev"

// Report is the agent's state at one moment, for `accelmux status`. New fields
// may come; none is renamed or removed within v1.
type Report struct {
	// Role is what the agent does among those of its state directory.
	Role Role `json:"role"`
	// Others are the agents beside this one that are known; in an update there is one of
	// the same state directory for a while.
	Others    []Other   `json:"others,omitempty"`
	Node      string    `json:"node"`
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
	// CDIDir is where the agent writes CDI specs, KubeletDir where kubelet has device-plugins, and KubeletRootDir
	// kubelet's root directory, as the agent sees them.
	CDIDir         string         `json:"cdiDir"`
	KubeletDir     string         `json:"kubeletDir"`
	KubeletRootDir string         `json:"kubeletRootDir"`
	Config         profile.Status `json:"config"`
	Backends       []Backend      `json:"backends"`
	Resources      []Resource     `json:"resources"`
	// Drivers are those of dynamic resource allocation; none without a resource of that API.
	Drivers []Driver `json:"drivers,omitempty"`
	// KubeletMissing is why kubelet cannot be reached, once that has lasted; "" if it can.
	KubeletMissing string `json:"kubeletMissing,omitempty"`
	// Cluster is the connection to the API server; nil without one.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Features are what is published of the node; nil if nothing is to be.
	Features *Features `json:"features,omitempty"`
	// Problems are what an operator should act on, of all parts of the agent; empty if there
	// is nothing.
	Problems []Problem `json:"problems"`
	// NotReady is what is missing before the node can use what the profile
	// promises; empty if every backend has reported, kubelet has every resource from this
	// agent and the API server has accepted the slices of every driver, and if no profile is
	// for this node. Of an agent on standby, what is
	// missing before it could take over.
	NotReady []string `json:"notReady"`
}

// Role is what an agent does among those of its state directory; see package takeover.
type Role string

const (
	// RoleActive serves the node.
	RoleActive Role = "active"
	// RoleStandby has started its backends, and takes over when the active one ends.
	RoleStandby Role = "standby"
	// RoleEnding got SIGTERM. It answers kubelet until kubelet is connected to the agent
	// that takes over.
	RoleEnding Role = "ending"
)

// Other is another agent of the node.
type Other struct {
	Role Role `json:"role"`
	// PID is that of the agent's own PID namespace; 0 if it is not known.
	PID   int       `json:"pid"`
	Host  string    `json:"host,omitempty"`
	Since time.Time `json:"since"`
	// Note says what it is there for, and what to do if it should not be.
	Note string `json:"note"`
}

// Cluster is the connection to the API server.
type Cluster struct {
	// Watching: the Node, with its labels and cordoned devices, is watched now.
	Watching bool `json:"watching"`
	// EventsFailing: the last Event could not be written.
	EventsFailing bool `json:"eventsFailing"`
}

// Backend is one backend process.
type Backend struct {
	Name    string `json:"name"`
	Vendor  string `json:"vendor,omitempty"`
	Version string `json:"version,omitempty"`
	// State is the supervisor's: starting, running, backoff, quarantined ...
	State    string    `json:"state"`
	Since    time.Time `json:"since"`
	PID      int       `json:"pid,omitempty"`
	Restarts int       `json:"restarts"`
	Devices  int       `json:"devices"`
	// Generation is the number of the last inventory that was accepted.
	Generation uint64 `json:"generation"`
	LastError  string `json:"lastError,omitempty"`
	// Paused is why the backend must not run now; "" if it may.
	Paused string `json:"paused,omitempty"`
	// RetryAt is when a stopped backend is tried again; nil if it is not.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// ReportedName is the name that the program reports, if it is another one than Name: one
	// program can run under several names.
	ReportedName string `json:"reportedName,omitempty"`
	// Needs are what containers may get; nil before the backend has been described.
	Needs *Needs `json:"needs,omitempty"`
	// Sandbox is how the running process is restricted; nil if there is none.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Resource is one resource, as kubelet sees it or as it is published for dynamic resource
// allocation.
type Resource struct {
	Name string `json:"name"`
	// API is devicePlugin or dra. With dra, Registration, Since, Socket, Registrations and
	// Injection have no value.
	API          string `json:"api"`
	Registration string `json:"registration"`
	// State is the device plugin's: waiting for kubelet, registered ... With dra it is empty,
	// waiting (for kubelet or the API server) or serving.
	State  string    `json:"state"`
	Since  time.Time `json:"since,omitzero"`
	Socket string    `json:"socket,omitempty"`
	// Registrations counts how often kubelet accepted the resource since the agent's start.
	Registrations int `json:"registrations"`
	// Units counts devices and replicas; with dra, Units, Healthy and Allocated count devices.
	Units   int `json:"units"`
	Healthy int `json:"healthy"`
	// Allocated counts those that containers or claims hold, as far as they are known.
	Allocated int    `json:"allocated"`
	Injection string `json:"injection"`
	LastError string `json:"lastError,omitempty"`
	// Conflict is why kubelet may have devices of another plugin for the resource; "" if it has not.
	Conflict string `json:"conflict,omitempty"`
	// Note is information that is no problem, such as for a resource of an earlier
	// configuration.
	Note string `json:"note,omitempty"`
}

// Driver is a DRA driver: it publishes the devices of one backend in ResourceSlices, and prepares
// claims for them.
type Driver struct {
	Name    string `json:"name"`
	Backend string `json:"backend"`
	// Devices counts those to publish, Slices the ResourceSlices for them, and Claims the claims that are prepared or
	// being prepared.
	Devices int `json:"devices"`
	Slices  int `json:"slices"`
	Claims  int `json:"claims"`
	// Registered: kubelet has accepted the driver.
	Registered bool `json:"registered"`
	// Published: the API server has accepted the slices of these devices.
	Published bool `json:"published"`
	// Problem is what keeps the driver from serving; "" if nothing does, or it is not known yet.
	// It is in Report.Problems, too.
	Problem string `json:"problem,omitempty"`
	// Notes are information that is no problem: attributes that the cluster's limits or features leave no
	// room for.
	Notes []string `json:"notes,omitempty"`
}

// Features are what is published about the node, for schedulers.
type Features struct {
	// Target is where: "file /etc/...".
	Target string `json:"target"`
	// At is when they were last written or found unchanged; nil for never.
	At *time.Time `json:"at,omitempty"`
	// Published are the features by name.
	Published map[string]string `json:"published,omitempty"`
}

// DeviceHealth is the health of a device, for metrics.
type DeviceHealth struct {
	// Resource is the resource that has it, "" if none selects it.
	Backend, ID, Resource string
	Healthy               bool
	// Fault is the code of its gravest fault, or "".
	Fault string
}
