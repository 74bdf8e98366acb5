//go:build !race

package agent

const manyDevices = 50_000
