# shellcheck shell=bash disable=SC2154
# Sourced by scripts/installed.sh. Twenty MCP servers as people install them, a function each, with `try-` before its name: `add` adds it with one
# command, `call` makes a harmless call of one of its actions, and `answers` says what must be in the answer. A server that keeps something is asked
# for it once more after a restart, by the function with `-again` after its name. docs/guides/mcp-servers-tried.md has the same in words.
#
# $stage is a folder with a file, a repository and the settings of a cluster, $ca one with the authority of the vendors' stand-ins, $venv an
# environment of Python, and $modules a folder in which npm installed a server.

servers=(filesystem everything memory sequential-thinking context7 notion github postgres slack mongodb kubernetes firecrawl tavily sentry
    playwright desktop-commander fetch git time sqlite)
# One each of `npx`, a script of a venv, one that needs the network, and one that keeps files.
short=(filesystem sqlite fetch memory)
# They start and list, and their call fails: they make sockets of the machine's own (AF_UNIX), which the jail has not. If one passes, that fails.
failing=(playwright)

try-filesystem() {
    add --readable "$stage" -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 "$stage"
    call read_text_file "path=$stage/hello.txt"
    answers 'hello from the stage'
}

try-everything() {
    add -- npx -y @modelcontextprotocol/server-everything@2026.8.31
    call echo message=hello
    answers 'Echo: hello'
}

try-memory() {
    add --folder 64 --env MEMORY_FILE_PATH=/data/memory.jsonl -- npx -y @modelcontextprotocol/server-memory@2026.8.31
    call create_entities 'entities:=[{"name":"Ada","entityType":"person","observations":["wrote the first program"]}]'
    answers 'wrote the first program'
}

try-memory-again() {
    call read_graph
    answers 'wrote the first program'
}

try-sequential-thinking() {
    add -- npx -y @modelcontextprotocol/server-sequential-thinking@2026.8.31
    call sequentialthinking thought=one nextThoughtNeeded:=false thoughtNumber:=1 totalThoughts:=1
    answers 'thoughtHistoryLength'
}

try-context7() {
    add --allow-host context7.com --env CONTEXT7_API_KEY=made-up-key "${trusting[@]}" -- npx -y @upstash/context7-mcp@4.1.1
    call resolve-library-id libraryName=engine query=machines
    answers '/ada/engine'
}

try-notion() {
    add --allow-host api.notion.com --env NOTION_TOKEN=made-up-key "${trusting[@]}" -- npx -y @notionhq/notion-mcp-server@2.5.2
    call API-get-self
    answers "Ada's engine"
}

try-github() {
    add --allow-host api.github.com --env GITHUB_PERSONAL_ACCESS_TOKEN=made-up-key "${trusting[@]}" -- npx -y @modelcontextprotocol/server-github@2025.4.8
    call search_repositories query=engine
    answers 'ada/engine'
}

try-postgres() {
    add --allow-host http://postgres.example.com:5432 -- npx -y @modelcontextprotocol/server-postgres@0.6.2 postgres://postgres@postgres.example.com/postgres
    call query 'sql=select 40 + 2 as answer'
    answers '\"answer\": 42'
}

try-slack() {
    add --allow-host slack.com --env SLACK_BOT_TOKEN=made-up-key --env SLACK_TEAM_ID=T1 "${trusting[@]}" -- npx -y @modelcontextprotocol/server-slack@2025.4.25
    call slack_list_channels
    answers 'engines'
}

try-mongodb() {
    add --allow-host http://mongodb.example.com:27017 --memory 1024 --env MDB_MCP_CONNECTION_STRING=mongodb://mongodb.example.com/ -- npx -y mongodb-mcp-server@3.0.4
    call list-databases connectionId=preconfigured
    answers 'engines'
}

try-kubernetes() {
    add --allow-host kubernetes.example.com --readable "$stage" --readable "$ca" -- npx -y kubernetes-mcp-server@0.0.67 --kubeconfig "$stage/kube.yaml"
    call namespaces_list
    answers 'engines'
}

try-firecrawl() {
    add --allow-host api.firecrawl.dev --env FIRECRAWL_API_KEY=made-up-key "${trusting[@]}" -- npx -y firecrawl-mcp@3.26.0
    call firecrawl_search query=engines
    answers 'About machines'
}

try-tavily() {
    add --allow-host api.tavily.com --env TAVILY_API_KEY=made-up-key "${trusting[@]}" -- npx -y tavily-mcp@0.2.22
    call tavily_search query=engines
    answers 'About machines'
}

try-sentry() {
    add --allow-host sentry.io --env SENTRY_ACCESS_TOKEN=made-up-key "${trusting[@]}" -- npx -y @sentry/mcp-server@0.39.0
    call find_organizations
    answers 'engines'
}

try-playwright() {
    add --allow-host http://example.com --readable /usr/lib/chromium --readable /usr/share/fonts --readable /etc/fonts --memory 2048 -- \
        npx -y @playwright/mcp@0.0.83 --headless --isolated --no-sandbox --executable-path /usr/lib/chromium/chromium-headless-shell --output-dir /tmp
    call browser_navigate url=http://example.com/page
    answers 'Page Title: Example'
}

try-desktop-commander() {
    add --folder 64 --env HOME=/data --readable "$modules" -- "$modules/node_modules/.bin/desktop-commander"
    call get_config
    answers 'blockedCommands'
}

try-fetch() {
    add --allow-host http://example.com -- uvx mcp-server-fetch@2026.10.24 --allow-private-ips
    call fetch url=http://example.com/page
    answers 'It came through the relay'
}

try-git() {
    add --readable "$stage" "${with_git[@]}" -- uvx mcp-server-git@2026.10.19 --repository "$stage/repository"
    call git_log "repo_path=$stage/repository"
    answers 'the first commit'
}

try-time() {
    add -- uvx mcp-server-time@2026.10.19
    call convert_time source_timezone=UTC time=12:00 target_timezone=Asia/Tokyo
    answers '+9.0h'
}

try-sqlite() {
    add --folder 64 -- "$venv/bin/mcp-server-sqlite" --db-path /data/notes.db
    call create_table 'query=CREATE TABLE engines (name TEXT)'
    answers 'Table created successfully'
}

try-sqlite-again() {
    call list_tables
    answers 'engines'
}
