// Command hostilebackend is a backend that misbehaves as its environment says. See
// package hostile.
package main

import "github.com/accelmux/accelmux/test/hostile"

func main() { hostile.Serve() }
