//go:build tools

// Package main keeps the command that `npm run peers` builds in go.mod.
package main

import _ "github.com/prometheus/prometheus/cmd/promtool"
