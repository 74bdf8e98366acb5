//go:build race

package agent

const manyDevices = 5_000
