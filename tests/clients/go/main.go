// Speaks MCP over HTTPS as Go programs do.
//
// usage: over_tls http1|http2 URL SESSIONS SIZE…
//
// URL/warm is asked for first. Then each of the sessions, all at once, calls `echo` with a text of each size; the first one alone with the last.
// Each message is preceded by a request of $OTHER/noise, over another connection.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

type object = map[string]any

// A client with connections of its own.
func client(mode string) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: mode == "http2",
	}
	if mode == "http1" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport}
}

// What a session sends, in order.
func messages(session int, sizes []int) []object {
	initialize := object{
		"protocolVersion": "2025-06-18",
		"capabilities":    object{},
		"clientInfo":      object{"name": "over-tls", "version": "1"},
	}
	all := []object{
		{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
		{"jsonrpc": "2.0", "method": "notifications/initialized"},
		{"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
	}
	if session > 0 {
		sizes = sizes[:len(sizes)-1]
	}
	for place, size := range sizes {
		text := strings.Repeat(fmt.Sprintf("%d-%d ", session, place), size/4+1)[:size]
		params := object{"name": "echo", "arguments": object{"text": text}}
		all = append(all, object{"jsonrpc": "2.0", "id": 3 + place, "method": "tools/call", "params": params})
	}
	return all
}

// Asks, and reads the whole answer.
func ask(client *http.Client, method, url, session string, body []byte) string {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		request.Header.Set("Mcp-Session-Id", session)
	}
	answer, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		panic(err)
	}
	return answer.Header.Get("Mcp-Session-Id")
}

func main() {
	mode, url, other := os.Args[1], os.Args[2], os.Getenv("OTHER")
	sessions, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	var sizes []int
	for _, argument := range os.Args[4:] {
		size, err := strconv.Atoi(argument)
		if err != nil {
			panic(err)
		}
		sizes = append(sizes, size)
	}
	ask(client(mode), "GET", url+"/warm", "", nil)
	var all sync.WaitGroup
	for session := 0; session < sessions; session++ {
		all.Add(1)
		go func(session int) {
			defer all.Done()
			own, noise, id := client(mode), client(mode), ""
			for _, message := range messages(session, sizes) {
				ask(noise, "GET", other+"/noise", "", nil)
				body, err := json.Marshal(message)
				if err != nil {
					panic(err)
				}
				id = ask(own, "POST", url+"/mcp", id, body)
			}
			ask(own, "DELETE", url+"/mcp", id, nil)
			own.CloseIdleConnections()
		}(session)
	}
	all.Wait()
}
