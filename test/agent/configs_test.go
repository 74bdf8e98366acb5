package agent

// oneBackend has four whole devices, driven by the scenario file.
const oneBackend = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, numaNodes: 2, scenarioFile: DIR/scenario.yaml}
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu}
`

// twoBackends has a second backend, an FPGA vendor, that nothing happens to.
const twoBackends = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, scenarioFile: DIR/scenario.yaml}
        holdover: 500ms
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-mock
        settings: {count: 2, class: fpga, id: "f-{{.Index}}"}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/fpga, backend: other}
`
