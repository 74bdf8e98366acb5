// Package life measures the unmodified agent with real backend processes over its life:
// how long a start takes beside the smallest host of hashicorp/go-plugin, how long
// kubelet's restarts cost, and what is left of a thousand of everything.
package life
