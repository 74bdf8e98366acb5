package convert

// The parts of a node configuration that a conversion writes.
type (
	backend struct {
		Name         string            `yaml:"name"`
		Env          map[string]string `yaml:"env,omitempty"`
		VendorLabels []string          `yaml:"vendorLabels,omitempty,flow"`
		Settings     settings          `yaml:"settings,omitempty"`
	}
	resource struct {
		Name             string `yaml:"name"`
		Class            string `yaml:"class"`
		Selector         string `yaml:"selector,omitempty"`
		Replicas         int    `yaml:"replicas,omitempty"`
		Injection        string `yaml:"injection,omitempty"`
		AnnotationPrefix string `yaml:"annotationPrefix,omitempty"`
		Allocation       struct {
			Policy string `yaml:"policy,omitempty"`
		} `yaml:"allocation,omitempty"`
	}
	settings struct {
		MIG struct {
			Strategy string `yaml:"strategy,omitempty"`
		} `yaml:"mig,omitempty"`
		Edits edits `yaml:"edits,omitempty"`
		XID   struct {
			Ignore []int `yaml:"ignore,omitempty,flow"`
		} `yaml:"xid,omitempty"`
		Labels struct {
			NoTimestamp  bool `yaml:"noTimestamp,omitempty"`
			PlainProduct bool `yaml:"plainProduct,omitempty"`
		} `yaml:"labels,omitempty"`
		MPS struct {
			Replicas int `yaml:"replicas,omitempty"`
		} `yaml:"mps,omitempty"`
	}
	edits struct {
		Mode            string   `yaml:"mode,omitempty"`
		DriverRoot      string   `yaml:"driverRoot,omitempty"`
		DriverRootMount string   `yaml:"driverRootMount,omitempty"`
		DevRoot         string   `yaml:"devRoot,omitempty"`
		Hook            string   `yaml:"hook,omitempty"`
		DisabledHooks   []string `yaml:"disabledHooks,omitempty,flow"`
		VisibleDevices  string   `yaml:"visibleDevices,omitempty"`
		DeviceIDs       string   `yaml:"deviceIDs,omitempty"`
		OmitDeviceNodes bool     `yaml:"omitDeviceNodes,omitempty"`
		GDS             bool     `yaml:"gds,omitempty"`
		MOFED           bool     `yaml:"mofed,omitempty"`
		GDRCopy         bool     `yaml:"gdrcopy,omitempty"`
		IMEX            imex     `yaml:"imex,omitempty"`
	}
	imex struct {
		Channels []int `yaml:"channels,omitempty,flow"`
		Required bool  `yaml:"required,omitempty"`
	}
)
