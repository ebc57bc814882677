"""The browser server against a real Chromium: connections, tabs, elements, debugger, both eras."""
