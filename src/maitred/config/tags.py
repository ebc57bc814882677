"""The tags of tools: a fixed vocabulary in four dimensions, so that filters mean the same everywhere.

A tag is written `dimension:tag`. The words beside it give it away in what a tool is called and says first;
a name that is an ordinary word as well ("go", "express", "spring") is recognised by a phrase only.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from maitred.wording import near_names

MOST_TAGS: Final = 8
"""How many tags a tool has at most."""


def _tags(text: str) -> Mapping[str, Sequence[str]]:
    """Read lines of `tag: word, two words`; a tag's own name counts unless the line begins with `!`."""
    found: dict[str, Sequence[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        tag, _, triggers = line.lstrip("!").partition(":")
        own = [] if line.startswith("!") else [tag.replace("_", " ")]
        words = (" ".join(word.split()) for word in triggers.split(","))
        found[tag] = tuple(dict.fromkeys([*own, *filter(None, words)]))
    return MappingProxyType(found)


TAGS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = MappingProxyType(
    {
        "function": _tags("""
            search: find, query, lookup, look up, discover, grep
            !list: list, enumerate, browse
            !read: read, fetch, retrieve, view, show, describe, get
            create: add, insert, new, make
            update: edit, modify, change, patch, set, rename
            delete: remove, destroy, purge, drop
            !write: write, append, overwrite
            !execute: execute, run, invoke, trigger, launch
            upload: import
            download: export
            copy: duplicate, clone
            move: relocate
            !send: send, reply, forward, publish, post
            notify: notification, reminder, remind
            schedule: booking, appointment
            convert: transform
            extract: parse, ocr
            scrape: crawl, scraping
            !navigate: navigate, click, scroll, hover
            screenshot: capture page, page snapshot
            !translate: translate, translation
            summarize: summarise, summary
            classify: classification, categorize
            compare: diff, comparison
            validate: verify, check, validation
            format: prettify, pretty print
            analyze: analyse, analysis, inspect
            !aggregate: aggregate, statistics, count, group by
            visualize: chart, plot, visualization, diagram
            calculate: compute, calculator, arithmetic
            static_analysis: lint, linter, code quality, complexity, dead code, type check
            code_generation: generate code, scaffold, boilerplate, codegen
            refactoring: refactor, rename symbol, extract method
            code_search: code navigation, find references, find symbol, definition
            code_review: review code, pull request review
            testing: run tests, unit test, test case, test suite
            debugging: debug, debugger, breakpoint, stack trace
            build: compile
            deploy: deployment, rollout, rollback
            monitor: monitoring, metric, metrics, health check, uptime
            logging: log, logs
            backup: restore, snapshot backup
            scale: autoscaling, replica
            authenticate: login, authentication, sign in
            authorize: permission, permissions, grant access, revoke
            encrypt: encryption, decrypt
            vulnerability_scan: vulnerability, vulnerabilities, security scan, cve
            audit: audit log, compliance
            !image_generation: generate image, image generation, text to image
            !speech: text to speech, speech to text, transcribe, tts
            embedding: embeddings, vectorize
            !memory: remember, recall, memory, memories
            planning: plan, thinking, reasoning
        """),
        "language": _tags("""
            python: py file, pytest, pip install
            javascript: js code
            typescript: tsx
            java: java class, maven, gradle
            kotlin:
            scala:
            csharp: c sharp, dotnet
            fsharp:
            cpp: c plus plus, clang
            !c: c code, c language, c source
            !go: golang, go code, go module, go package
            rust: cargo, crates
            ruby: ruby gem
            php: composer package
            !swift: swift code, swift language, swiftui
            objective_c: objc
            !r: r language, rstats, r script
            julia:
            matlab:
            perl:
            lua:
            haskell:
            elixir:
            erlang:
            clojure:
            ocaml:
            zig:
            !dart: dart code, dart language, flutter
            solidity: smart contract
            bash: shell script, shell command
            powershell:
            sql: sql query
            html:
            css: stylesheet
            latex: tex file
            fortran:
            cobol:
            !assembly: disassemble, assembly code, disassembly
        """),
        "framework": _tags("""
            !react: react component, reactjs, react app, react hooks
            react_native:
            nextjs: next js
            !vue: vuejs, vue component, vue js
            nuxt: nuxtjs
            angular: angularjs
            svelte: sveltekit
            !astro: astro site, astro component
            django:
            flask:
            fastapi:
            !rails: ruby on rails
            laravel:
            symfony:
            !spring: spring boot, spring framework, springboot
            !express: expressjs, express js
            nestjs: nest js
            aspnet: asp net
            flutter:
            swiftui:
            electron:
            tailwind: tailwindcss
            bootstrap_css:
            shadcn: shadcn ui
            storybook:
            playwright:
            puppeteer:
            selenium:
            cypress:
            pytest:
            jest:
            junit:
            pandas:
            numpy:
            pytorch: torch
            tensorflow:
            scikit_learn: sklearn
            !transformers: huggingface transformers, hugging face
            langchain:
            llamaindex: llama index
            spark: pyspark
            airflow:
            dbt:
            prisma:
            sqlalchemy:
            !unity: unity editor, unity scene, game object
            !unreal: unreal engine
            godot:
            wordpress: wp
            drupal:
        """),
        "technology": _tags("""
            rest_api: rest endpoint, restful, http request, http api
            graphql:
            grpc: protobuf
            openapi: swagger
            webhook: webhooks
            websocket: websockets
            !mcp: mcp server, model context protocol
            git: commit, branch, rebase, stash, cherry pick
            github: github actions, gist
            gitlab:
            bitbucket:
            docker: dockerfile, docker compose
            kubernetes: kubectl, k8s, pod, pods, helm
            terraform: opentofu
            ansible:
            ci_cd: jenkins, circleci, github actions, ci pipeline, build pipeline, workflow run
            aws: ec2, s3, cloudformation, dynamodb, amazon web services, cloudwatch
            azure: azure devops, entra
            gcp: google cloud, gke, cloud run
            cloudflare:
            vercel:
            !linux: systemd, ubuntu, linux
            windows_os: windows registry
            macos: applescript
            ios: iphone, xcode, ios simulator
            android: adb
            sql: sql query, select statement
            postgresql: postgres, supabase
            mysql: mariadb
            sqlite:
            mongodb: mongo
            redis:
            elasticsearch: opensearch
            bigquery:
            snowflake:
            databricks:
            duckdb:
            neo4j: cypher
            vector_database: vector store, vector search, pinecone, qdrant, chroma, weaviate, milvus
            kafka:
            rabbitmq:
            prometheus: promql
            grafana:
            datadog:
            sentry:
            opentelemetry: otel
            browser: chrome, chromium, firefox
            pdf:
            spreadsheet: excel, xlsx, worksheet, workbook, google sheets
            word_document: docx, google docs
            presentation: pptx, powerpoint, google slides, slide
            markdown:
            json:
            yaml:
            xml:
            csv:
            email: gmail, outlook, smtp, imap, inbox
            calendar: ical, google calendar
            slack:
            discord:
            telegram:
            jira:
            confluence:
            notion:
            linear_app: linear issue
            salesforce:
            hubspot:
            stripe:
            shopify:
            figma:
            oauth: oidc, sso
            llm: language model, gpt, openai, anthropic, ollama
            blockchain: ethereum, bitcoin, smart contract, web3, solana
            maps: geocode, google maps, openstreetmap
            ssh: sftp
            dns: dns record, nameserver
            shell: terminal, command line, bash
            filesystem: file system, directory, folder
        """),
    }
)

_ALL: Final = tuple(f"{dimension}:{tag}" for dimension, tags in TAGS.items() for tag in tags)


def normalise_tag(tag: str) -> str | None:
    """The tag as `dimension:tag`, or `None` if the vocabulary has it not, or not only once.

    Case, spaces and hyphens do not matter; the dimension may be left out where no other has the same tag.
    """
    wanted = ":".join("_".join(part.replace("-", " ").split()) for part in tag.casefold().split(":"))
    if wanted in _ALL:
        return wanted
    found = _bearers(wanted)
    return found[0] if len(found) == 1 else None


def check_tags(tags: Iterable[str]) -> list[str]:
    """What is wrong with tags that a person wrote, one line each, with the nearest that exist."""
    return [_fault(tag) for tag in tags if normalise_tag(tag) is None]


def _bearers(bare: str) -> list[str]:
    return [f"{dimension}:{bare}" for dimension, tags in TAGS.items() if bare in tags]


def _fault(tag: str) -> str:
    wanted = tag.casefold().strip().replace(" ", "_").replace("-", "_")
    if several := _bearers(wanted):
        return f"tag {tag!r} is not the only one of its name; write {' or '.join(several)}"
    bare = wanted.rpartition(":")[2]
    bares = dict.fromkeys(tag.partition(":")[2] for tag in _ALL)
    near = [name for match in near_names(bare, bares) for name in _bearers(match)]
    hint = f"; near it: {', '.join(near)}" if near else f"; the dimensions are {', '.join(TAGS)}"
    return f"tag {tag!r} is not in the vocabulary{hint}"
